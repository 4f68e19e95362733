"""A language model behind a server as the simulated human."""
