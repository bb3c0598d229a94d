"""Decisions: typed questions about one input, answered by probabilities."""
