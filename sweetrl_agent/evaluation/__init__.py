"""How good agents and critics are: episodes, statistics, comparisons, costs, and what else is measured."""
