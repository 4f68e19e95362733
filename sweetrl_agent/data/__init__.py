"""What a run folder holds: rows, dialogues as tokens, pairs, and the folder itself."""
