"""Families that are composed: a base function, and a few topics that matter of the many on which such a function can be special."""
