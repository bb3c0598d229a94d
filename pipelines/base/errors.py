"""The errors of requests, as clients see them.  Does not depend on an HTTP library.

BraidError
├── RequestError      400  the request is at fault; `field` names where
│   ├── RequestCancelled   a client or a pause ended what the request needs
│   ├── MissingField       a field that must be there is not
│   ├── NoTextFits         a constraint of the output that nothing fulfils
│   ├── ContextTooLong     the prompt has more tokens than the model takes
│   ├── BadImage           the model takes no images, or this one cannot be read
│   ├── BadDocument        a document that cannot be read
│   └── FetchFailed   422  a file that the request names by its URL did not come
├── NotFound          404  no such model, version or task
│   └── ModelNotFound      no model has this name
├── InvalidConfig     412  config.json of OpenVINO Model Server that cannot be taken
├── Overloaded        429  too many requests; try again after `retry_after_s`
├── Unavailable       503  starting, restarting or shutting down; try again after `retry_after_s`
└── EngineError       500  the step that computed this request failed
    └── ReplyAborted       the reply was ended before its end, and is not to be asked for again
"""

from __future__ import annotations

MAX_MESSAGE_BYTES = 8 << 10
MAX_FIELD_BYTES = 512


class BraidError(Exception):
    """Root of the tree.  `message` is for the client: what is wrong and what to do next.

    A message, and the name of a field, may quote what a client sent: both are cut to a bound in bytes.
    """

    status = 500
    kind = "InternalServerError"
    word: str | None = None
    """OpenAI's `error.code` for this kind of error, where it has one."""
    in_words = False
    request_id: str | None = None
    """The id of the request that has it, once that is known, for APIs whose errors carry it."""
    may_retry = True
    """Whether clients that ask again after such a status do."""

    def __init__(
        self,
        message: str,
        field: str | None = None,
        retry_after_s: int | None = None,
        word: str | None = None,
    ) -> None:
        message = _cut(message, MAX_MESSAGE_BYTES)
        super().__init__(message)
        self.message = message
        self.field = field and _cut(field, MAX_FIELD_BYTES)
        self.retry_after_s = retry_after_s
        self.word = word or self.word

    @property
    def code(self) -> int | str | None:
        """What clients see as `error.code`: the status, as in vLLM, or `in_words` OpenAI's word."""
        return self.word if self.in_words else self.status


def _cut(text: str, max_bytes: int) -> str:
    """The beginning of a text, at most `max_bytes` of UTF-8."""
    if len(text) <= max_bytes // 4:
        return text
    data = text[: max_bytes + 1].encode(errors="replace")
    return text if len(data) <= max_bytes else data[: max_bytes - 3].decode(errors="ignore") + "..."


class RequestError(BraidError):
    status, kind = 400, "BadRequestError"


class RequestCancelled(RequestError):
    """A client or a pause ended what the request needs, while its own client waits."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled.")


class MissingField(RequestError):
    word = "missing_required_parameter"


class ContextTooLong(RequestError):
    word = "context_length_exceeded"


class BadImage(RequestError):
    pass


class BadDocument(RequestError):
    pass


class NoTextFits(RequestError):
    pass


class InvalidConfig(BraidError):
    """config.json of OpenVINO Model Server cannot be taken: what was served before is served on."""

    status, kind = 412, "PreconditionFailedError"


class FetchFailed(RequestError):
    status, kind = 422, "UnprocessableEntityError"


class NotFound(BraidError):
    status, kind = 404, "NotFoundError"


class ModelNotFound(NotFound):
    word = "model_not_found"


class Overloaded(BraidError):
    status, kind = 429, "RateLimitError"
    word = "rate_limit_exceeded"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class Unavailable(BraidError):
    status, kind = 503, "ServiceUnavailableError"

    def __init__(self, message: str, retry_after_s: int = 2) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class EngineError(BraidError):
    status, kind = 500, "InternalServerError"


class ReplyAborted(EngineError):
    """A request was cancelled or a pause ended it, and its reply cannot say so: it would look complete."""

    may_retry = False

    def __init__(self) -> None:
        super().__init__("The reply was aborted: the request was cancelled, or the server was paused.")


def unloaded_by_hand(name: str) -> BraidError:
    """A client unloaded the model, so requests do not load it."""
    return ModelNotFound(
        f"The model `{name}` is unloaded; POST /models/load loads it, requests do not", field="model"
    )
