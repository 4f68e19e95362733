"""Agents that need no torch: models behind chat servers, scripted policies, a person at the terminal, and a user's own."""
