"""Shortens a conversation until it fits: the oldest messages go, but no system message and not the last."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from server.apis.ollama.dialect import OLLAMA
from server.apis.ollama.requests import OllamaChat, OllamaRequest

Make = Callable[[GenerationInput], Call]


def fitted(request: OllamaRequest, max_context: int, make: Make) -> Call:
    """A call of the request, of which as few messages are left out as its context demands.

    Raises ContextTooLong where `truncate` is false, or where nothing can be left out any more.
    """
    source = request.source
    messages = (request.messages or []) if isinstance(request, OllamaChat) else []
    limit = min(source.num_ctx or max_context, max_context)
    droppable = [i for i, message in enumerate(messages[:-1]) if message.role != "system"]

    def call(num_dropped: int) -> Call:
        if isinstance(request, OllamaChat):
            left_out = {*droppable[:num_dropped]}
            request.messages = [message for i, message in enumerate(messages) if i not in left_out]
        return _within(limit, make(OLLAMA.transform_generation(request.generation(max_context))))

    try:
        return call(0)
    except ContextTooLong:
        if source.truncate is False or not droppable:
            raise
    start = bisect_left(range(len(droppable)), True, key=lambda n: _fits(call, n))
    return next(_calls(call, range(start, len(droppable) + 1)))


def _fits(call: Callable[[int], Call], num_dropped: int) -> bool:
    """Whether a shorter conversation is short enough; one that the template refuses counts as that."""
    try:
        call(num_dropped).close()
    except ContextTooLong:
        return False
    except RequestError:
        pass
    return True


def _calls(call: Callable[[int], Call], numbers: range) -> Iterator[Call]:
    """The calls that can be made; raises the last error where there is none."""
    for number in numbers:
        try:
            yield call(number)
        except RequestError:
            if number == numbers[-1]:
                raise


def _within(limit: int, call: Call) -> Call:
    """Raises ContextTooLong for a prompt that leaves no room for a reply."""
    longest = max(call.prompt_lengths)
    if longest < limit:
        return call
    call.close()
    raise ContextTooLong(
        f"the prompt has {longest} tokens, and num_ctx is {limit}; send a larger num_ctx", field="options"
    )
