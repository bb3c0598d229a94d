"""Checks and benchmarks for a machine with an NVIDIA GPU; nothing of Braid imports this."""
