"""What users write: each file runs by itself, and in CI."""
