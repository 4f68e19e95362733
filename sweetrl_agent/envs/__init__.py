"""One record per environment, found by the environment's id."""
