"""Evaluation of agents: episodes into a file of rows, and rows into results with intervals, paired differences and cost."""
