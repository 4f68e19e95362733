"""Chess and Endgames: the games, and players for both sides."""
