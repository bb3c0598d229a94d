"""Errors that are a text alone: {"error": text}."""

from __future__ import annotations

from pipelines.base.errors import BraidError
from server.schema.reply_models import PlainError


def plain_error(error: BraidError) -> PlainError:
    """The error body of OpenVINO Model Server, KServe, TensorFlow Serving and Ollama."""
    return PlainError(error=error.message)
