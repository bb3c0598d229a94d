"""Turns outputs, results and errors of engines into messages to workers.

Does not depend on connections or on which calls are in flight.
"""

from __future__ import annotations

import logging

from pipelines.base.errors import BraidError, EngineError
from pipelines.inference.engine.interface.engine_contract import Result
from pipelines.inference.engine.interface.outputs import Output
from pipelines.wire.messages import Frame, Inferred, TokenUpdate
from pipelines.wire.tensor_codec import pack
from pipelines.wire.token_piece import TokenPiece

log = logging.getLogger("braid.host")


def update_of(request_id: int, output: Output) -> TokenUpdate:
    """An engine's output as the update of a request."""
    return TokenUpdate(
        request_id,
        output.choice,
        output.piece,
        error=output.error,
        error_status=output.error_status,
    )


def frames(updates: list[TokenUpdate]) -> list[Frame]:
    """One frame for all updates; one that has log-probabilities of a prompt is long, and is sent alone."""
    long_frames: list[Frame] = []
    short: list[TokenUpdate] = []
    for update in updates:
        logprobs = update.piece.logprobs
        if logprobs is not None and logprobs.prompt:
            long_frames.append(Frame([update]))
        else:
            short.append(update)
    return [*long_frames, Frame(short)] if short else long_frames


def refusal(request_id: int, error: Exception) -> Frame:
    """The message that a request has failed as a whole."""
    failure = _client_error(error)
    update = TokenUpdate(
        request_id,
        0,
        TokenPiece([], 0, "error"),
        error=failure.message,
        error_status=failure.status,
        error_field=failure.field,
        error_word=failure.word,
    )
    return Frame([update])


def inferred(request_id: int, result: Result) -> Inferred:
    """The message with a result; with an error when the outputs are more than the wire carries."""
    if isinstance(result, Exception):
        return _failed(request_id, result)
    try:
        return Inferred(request_id, pack("outputs", result))
    except Exception as error:
        return _failed(request_id, error)


def _failed(request_id: int, error: Exception) -> Inferred:
    """Raises nothing: a frame that raised an error it was given would keep the tensors of the request."""
    failure = _client_error(error)
    return Inferred(request_id, [], failure.message, failure.status, failure.field, failure.word)


def _client_error(error: Exception) -> BraidError:
    """The error for the client.  Anything but a BraidError is a fault of the server: logged, not shown."""
    if isinstance(error, BraidError):
        return error
    log.error("a request failed", exc_info=error)
    return EngineError("the engine failed on this request; see the server's log")
