"""Replies of chat/completions and completions, whole and as streams."""
