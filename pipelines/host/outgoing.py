"""Outputs, answers and errors → the messages that tell workers of them.

Knows shapes of messages; knows nothing of connections, or of which calls are in flight.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pipelines.errors import BraidError, EngineError
from pipelines.wire.messages import Frame, Inferred, Speculation, TokenUpdate
from pipelines.wire.tensor_codec import pack

if TYPE_CHECKING:
    from pipelines.host.engine.outputs import Output
    from pipelines.host.engine.threaded_engine import Answer

log = logging.getLogger("braid.host")


def update_of(request_id: int, output: Output) -> TokenUpdate:
    """What one step gave one choice."""
    return TokenUpdate(
        request_id,
        output.choice,
        output.token_ids,
        output.logprobs,
        output.finish,
        output.stop_token_id,
        output.error,
        output.num_cached,
        output.error_status,
        None,
        output.prompt_logprobs or [],
        _speculation(output) if output.num_drafted else None,
        output.prefill_s,
    )


def frames(updates: list[TokenUpdate]) -> list[Frame]:
    """One frame, but what tells of a prompt is long and goes by itself."""
    short = [update for update in updates if not update.prompt_logprobs]
    whole = [Frame([update]) for update in updates if update.prompt_logprobs]
    return [*whole, Frame(short)] if short else whole


def refusal(request_id: int, error: Exception) -> Frame:
    """A request has failed as a whole."""
    told = _reported(error)
    update = TokenUpdate(
        request_id,
        0,
        [],
        finish="error",
        error=told.message,
        error_status=told.status,
        error_field=told.field,
    )
    return Frame([update])


def inferred(request_id: int, answer: Answer) -> Inferred:
    """The message for an answer; an error too when the outputs are more than the wire carries."""
    try:
        if isinstance(answer, Exception):
            raise answer
        return Inferred(request_id, pack("outputs", answer))
    except Exception as error:
        told = _reported(error)
        return Inferred(request_id, [], told.message, told.status, told.field)


def _speculation(output: Output) -> Speculation:
    """Those of a step that were accepted are its first tokens."""
    return Speculation(output.num_drafted, output.num_accepted, [*output.draft_logprobs])


def _reported(error: Exception) -> BraidError:
    """What the client is told.  What is not a BraidError is our fault: logged, and not shown."""
    if isinstance(error, BraidError):
        return error
    log.error("a request failed", exc_info=error)
    return EngineError("the engine failed on this request; see the server's log")
