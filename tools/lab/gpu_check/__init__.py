"""Checks and benchmarks for a machine with an NVIDIA GPU; not imported by Braid itself."""
