"""Tools of the documentation: generated tables, and hooks of MkDocs."""
