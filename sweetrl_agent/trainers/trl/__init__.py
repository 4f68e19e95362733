"""All overrides of TRL."""
