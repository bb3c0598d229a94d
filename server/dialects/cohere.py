"""Builds errors for Cohere's clients: OpenAI's envelope plus a top-level `message`."""

from __future__ import annotations

from pipelines.base.errors import BraidError
from server.schema.reply_models import ErrorReply, envelope

PATHS = frozenset({"/v1/embed", "/v2/embed", "/v1/rerank", "/v2/rerank"})
"""Paths whose errors have this shape."""


class CohereError(ErrorReply):
    message: str


def cohere_error(error: BraidError) -> CohereError:
    return CohereError(message=error.message, error=envelope(error).error)
