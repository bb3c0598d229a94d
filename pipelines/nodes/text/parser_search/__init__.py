"""Finds the parsers of a model by rendering its chat template."""
