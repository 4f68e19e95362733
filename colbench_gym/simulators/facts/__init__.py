"""Answer from the facts of a task: the scripted human of ColBench-Backend."""
