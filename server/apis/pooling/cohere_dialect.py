"""Cohere's dialect: errors are OpenAI's envelope plus a top-level `message`."""

from __future__ import annotations

from pipelines.base.errors import BraidError
from server.dialects import Dialect
from server.schema.reply_models import ErrorReply, envelope


class CohereError(ErrorReply):
    message: str


def cohere_error(error: BraidError) -> CohereError:
    return CohereError(message=error.message, error=envelope(error).error)


COHERE = Dialect("cohere", cohere_error, error_words=True)
