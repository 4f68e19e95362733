"""Our environments in other trainers."""
