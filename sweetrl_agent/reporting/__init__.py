"""The parts of the report of a run: reading its folder, figures, markup, one module per kind of section, and the page."""
