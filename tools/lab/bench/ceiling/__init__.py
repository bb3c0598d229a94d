"""Measures Braid's upper limit: its engine, and its path to a client, around a model that takes no time."""
