"""Composed families: a base function with many possible topics, of which a few are relevant in each family."""
