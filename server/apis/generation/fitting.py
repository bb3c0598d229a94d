"""Shortens conversations until a model has room for them and for a reply: the oldest turns go first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.encoding import chat_ids
from pipelines.worker.pipeline import Pipeline

INSTRUCTING = ("system", "developer")
"""Roles of messages that stay."""
REPLY_TOKENS = 1024
"""Room for a reply whose length the request does not limit, in tokens."""


def turns_to_drop(roles: Sequence[str]) -> list[list[int]]:
    """The places of messages that may be left out, in the order in which they go, by the roles of all.

    Whole turns go first, each from a message of the user to the next.  Of the last turn go the calls of the
    model, each with its results; what the user asked stays, and so does what came last.
    """
    places = [at for at, role in enumerate(roles) if role not in INSTRUCTING]
    asked = [at for at in places if roles[at] == "user"]
    start = asked[-1] if asked else (places[0] if places else 0)
    earlier = _parts([at for at in places if at < start], roles, "user")
    last = _parts([at for at in places if at >= start], roles, "assistant")
    return [*earlier, *(last[1:-1] if asked else last[:-1])]


def _parts(places: Sequence[int], roles: Sequence[str], opening: str) -> list[list[int]]:
    """Places in parts: a new one begins at each message of the role `opening`."""
    parts: list[list[int]] = []
    for at in places:
        if not parts or roles[at] == opening:
            parts.append([])
        parts[-1].append(at)
    return parts


def shortened(num_parts: int, call: Callable[[int], Call]) -> Call:
    """The call without as few of the oldest parts of a conversation as possible; `call` gets their number.

    Raises ContextTooLong where `call` raises it for all numbers.
    """
    try:
        return call(0)
    except ContextTooLong:
        if not num_parts:
            raise
    start = bisect_left(range(num_parts), True, lo=1, key=lambda number: _fits(call, number))
    return next(_calls(call, range(start, num_parts + 1)))


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
    """The calls that can be attempt; raises the last error where there is none."""
    for number in numbers:
        try:
            yield call(number)
        except RequestError:
            if number == numbers[-1]:
                raise


def fitted_chat(
    chat: ChatRequest,
    pipeline: Pipeline,
    generation: Callable[[ChatRequest, list[int]], GenerationInput],
    make: Callable[[GenerationInput], Call],
) -> Call:
    """A call of a conversation, of which as few turns are left out as leave room for its reply.

    `generation` makes the input of a shorter request; the numbers are the places of its messages in `chat`.
    Where nothing more can be left out, the reply has what room there is.  Raises ContextTooLong without any.
    """
    max_context = pipeline.max_context
    messages, room = chat.conversation, reply_room(chat, max_context)
    parts = turns_to_drop([message.role for message in messages])

    def call(num_dropped: int) -> Call:
        left_out = {at for part in parts[:num_dropped] for at in part}
        places = [at for at in range(len(messages)) if at not in left_out]
        shorter = chat.model_copy(update={"messages": [messages[at] for at in places]}) if left_out else chat
        attempt = make(generation(shorter, places))
        longest = _num_tokens(pipeline, attempt)
        if num_dropped == len(parts) or longest + room <= max_context or not max_context:
            return attempt
        attempt.close()
        raise ContextTooLong(f"the prompt has {longest} tokens, and its reply up to {room}", "messages")

    return shortened(len(parts), call)


def _num_tokens(pipeline: Pipeline, call: Call) -> int:
    """The tokens of a call's prompt, or those of the request where a composed graph makes prompts later."""
    if not call.is_composed:
        return max(call.prompt_lengths)
    try:
        return len(chat_ids(pipeline, call.request))
    except RequestError:
        return 0


def reply_room(chat: ChatRequest, max_context: int) -> int:
    """For how many tokens of a reply a conversation is shortened: at most half of the context."""
    wanted = chat.num_tokens or chat.most_tokens
    return min(REPLY_TOKENS, max_context // 4) if wanted is None else min(wanted, max_context // 2)
