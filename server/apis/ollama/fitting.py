"""Shortens a conversation until it fits: the oldest messages go, but no system message and not the last."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.base.errors import ContextTooLong
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from server.apis.generation.fitting import shortened
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

    return shortened(0 if source.truncate is False else len(droppable), call)


def _within(limit: int, call: Call) -> Call:
    """Raises ContextTooLong for a prompt that leaves no room for a reply."""
    longest = max(call.prompt_lengths)
    if longest < limit:
        return call
    call.close()
    raise ContextTooLong(
        f"the prompt has {longest} tokens, and num_ctx is {limit}; send a larger num_ctx", field="options"
    )
