"""The algorithms, a method a file, each readable next to its paper; `registry` has their names."""
