"""The simulated humans of ColBench-Frontend, who compare two pages."""
