"""The run folder and its contents: rows, tokenized dialogues and preference pairs."""
