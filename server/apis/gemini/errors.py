"""Errors in Gemini's shape: {"error": {code, message, status}}."""

from __future__ import annotations

from pipelines.base.errors import BraidError
from server.schema.reply_models import Reply

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
"""HTTP status → Google's word for it; any other above 499 is INTERNAL, below INVALID_ARGUMENT."""


class GeminiErrorDetail(Reply):
    code: int
    message: str
    status: str


class GeminiErrorReply(Reply):
    error: GeminiErrorDetail


def gemini_error(error: BraidError) -> GeminiErrorReply:
    word = STATUSES.get(error.status, "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT")
    return GeminiErrorReply(error=GeminiErrorDetail(code=error.status, message=error.message, status=word))
