"""Reports of runs and comparisons: reading of folders, figures, markup, one module per kind of section, and the page."""
