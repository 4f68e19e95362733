"""Wordle: the game, its rules and words, and exact values of the greedy policy."""
