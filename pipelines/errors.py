"""The errors of requests, as clients see them.  Does not depend on an HTTP library.

BraidError
├── RequestError      400  the request is at fault; `field` names where
├── NotFound          404  no such model, version or task
├── Overloaded        429  too many requests; try again after `retry_after_s`
├── Unavailable       503  starting, restarting or shutting down; try again after `retry_after_s`
└── EngineError       500  the step that computed this request failed
"""

from __future__ import annotations


class BraidError(Exception):
    """Root of the tree.  `message` is for the client: what is wrong and what to do next."""

    status = 500
    kind = "InternalServerError"

    def __init__(self, message: str, field: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s


class RequestError(BraidError):
    status, kind = 400, "BadRequestError"


class NotFound(BraidError):
    status, kind = 404, "NotFoundError"


class Overloaded(BraidError):
    status, kind = 429, "RateLimitError"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class Unavailable(BraidError):
    status, kind = 503, "ServiceUnavailableError"

    def __init__(self, message: str, retry_after_s: int = 2) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class EngineError(BraidError):
    status, kind = 500, "InternalServerError"
