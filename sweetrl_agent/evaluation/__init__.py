"""Evaluation of agents and critics: episodes, statistics, comparisons and costs."""
