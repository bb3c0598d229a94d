"""Errors as text-embeddings-inference sends them: a text, and a word for their kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.base.errors import BraidError, ContextTooLong, NotFound, RequestError
from server.schema.reply_models import Reply

TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.* contains (?:at least )?(\d+) input tokens")
WORDS = {
    400: "empty",
    401: "unauthorized",
    404: "not_found",
    413: "payload_too_large",
    422: "validation",
    424: "backend",
    429: "overloaded",
    503: "unhealthy",
}
"""HTTP status → the word for it; any other is `backend`."""


class Empty(RequestError):
    """A request without a text."""


class Invalid(RequestError):
    """A request that does not fit, or is too large."""

    status = 422


class WrongModel(BraidError):
    """The model does something else, or it failed."""

    status, kind = 424, "FailedDependencyError"


class TeiError(Reply):
    error: str
    error_type: str


def tei_error(error: BraidError) -> TeiError:
    return TeiError(error=error.message, error_type=WORDS.get(error.status, "backend"))


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors raised inside the block have the statuses of text-embeddings-inference."""
    try:
        yield
    except (Empty, Invalid):
        raise
    except RequestError as error:
        raise Invalid(_text(error), field=error.field) from None
    except NotFound as error:
        raise WrongModel(error.message, field=error.field) from None


def _text(error: RequestError) -> str:
    found = TOO_LONG.search(error.message) if isinstance(error, ContextTooLong) else None
    if found is None:
        return error.message
    return f"`inputs` must have less than {found[1]} tokens. Given: {found[2]}"
