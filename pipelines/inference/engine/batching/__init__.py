"""Runs of several requests: texts of like lengths within a budget of tokens, and tensors of one shape."""
