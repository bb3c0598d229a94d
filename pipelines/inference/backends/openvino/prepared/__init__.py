"""Stored graphs of decoders, so that they open faster."""
