"""Every override of TRL, in one place."""
