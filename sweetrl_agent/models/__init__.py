"""Loading models, and the tiny Llama that is made here."""
