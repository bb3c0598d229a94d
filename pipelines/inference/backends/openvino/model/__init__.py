"""Reads and rewrites OpenVINO models: weights, linear layers, adapters."""
