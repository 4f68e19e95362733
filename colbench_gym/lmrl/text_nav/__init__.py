"""Text-Nav: the game and its world."""
