"""Which sequences are in the next step, and with how many tokens."""
