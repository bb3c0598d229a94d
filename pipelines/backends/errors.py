"""What can go wrong while a model is opened.  Knows nothing of requests."""

from __future__ import annotations


class ModelError(Exception):
    """An exported model cannot be served as asked; the message says why and what to do."""
