"""Errors as Cohere's clients read them: OpenAI's envelope, and the message once more beside it.

Knows nothing of HTTP libraries.
"""

from __future__ import annotations

from pipelines.errors import BraidError
from server.generation.replies.schema import ErrorReply, envelope

PATHS = frozenset({"/v1/embed", "/v2/embed", "/v1/rerank", "/v2/rerank"})
"""Requests of these paths are answered in this shape."""


class ToldError(ErrorReply):
    message: str


def told(error: BraidError) -> ToldError:
    return ToldError(message=error.message, error=envelope(error).error)
