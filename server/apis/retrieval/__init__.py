"""Searches for passages."""
