"""Which adapters each model has, and whose weights are in memory."""
