"""Twenty Questions and Guess My City: the games, their tables, and the oracle that understands questions."""
