"""Interfaces of the trainer. Nothing here depends on ColBench, on the command line or on a file format."""
