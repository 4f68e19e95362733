"""Compute a score from an agent's message: `answer` parses the message, `unit_tests` runs the hidden tests."""
