"""Embeddings, classes and scores: request models, running the call, and reply encoders."""
