"""Answer from code: facts, arguments and results of a reference in plain words."""
