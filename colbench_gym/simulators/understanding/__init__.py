"""Understand what an agent's message asks."""
