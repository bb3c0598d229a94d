"""The errors that messages from the engine host carry, as the exceptions they were there."""

from __future__ import annotations

from pipelines.base.errors import (
    BraidError,
    EngineError,
    InvalidConfig,
    NotFound,
    Overloaded,
    RequestError,
    Unavailable,
)
from pipelines.wire.messages import Inferred, ModelSettled, Profiled, TokenUpdate

ERRORS: dict[int, type[BraidError]] = {
    error.status: error
    for error in (RequestError, NotFound, InvalidConfig, Overloaded, Unavailable, EngineError)
}


def host_error(message: TokenUpdate | Inferred | Profiled | ModelSettled) -> BraidError:
    """The error that a message from the host carries."""
    error = ERRORS.get(message.error_status, EngineError)(message.error or "the engine failed")
    error.field, error.word = message.error_field, message.error_word
    if isinstance(message, ModelSettled) and message.retry_after_s is not None:
        error.retry_after_s = message.retry_after_s
    return error


ENGINE_DIED = "the engine died while it worked on this; it is being restarted"


def lost_error() -> BraidError:
    """What a request fails with when the host ends while it works on it."""
    return Unavailable(ENGINE_DIED)
