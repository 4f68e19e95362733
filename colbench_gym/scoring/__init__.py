"""From an agent's message to a score: `answer` knows the markers, `unit_tests` runs the hidden tests."""
