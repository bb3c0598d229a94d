"""Beam search over the sequences of a request."""
