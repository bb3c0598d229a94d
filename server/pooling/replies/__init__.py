"""Rows, classes and scores → replies."""
