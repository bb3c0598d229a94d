"""Recognises exported models by their files, and writes graphs for them."""
