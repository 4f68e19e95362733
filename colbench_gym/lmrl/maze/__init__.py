"""The mazes: the games, their layouts, and exact values."""
