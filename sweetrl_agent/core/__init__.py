"""Contracts of the trainer: nothing here knows ColBench, a command line, or a file's format."""
