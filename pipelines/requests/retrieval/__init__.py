"""The fields of searches."""
