"""Mistral's path of texts with a gap."""
