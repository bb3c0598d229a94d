"""Arithmetic on arrays: sampling, penalties, masks, log-probabilities, pooling.

The functions here compute with numpy, and the folders below on other devices.  Imports nothing of Braid.
"""
