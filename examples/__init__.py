"""Examples of user code; each file is a script and is also run in CI."""
