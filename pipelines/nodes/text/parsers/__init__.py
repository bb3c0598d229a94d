"""Parsers of replies, which find reasoning and tool calls in pieces of text; `tables.py` has their names."""
