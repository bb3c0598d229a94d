"""Encode embeddings, classes and scores as replies."""
