"""Environment records, one per environment, found by the environment's id."""
