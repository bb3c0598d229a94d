"""Vectors, classes and scores: what may be asked for, and how it is answered."""
