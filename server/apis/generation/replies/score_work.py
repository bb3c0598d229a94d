"""What replies with many log-probabilities cost a worker's event loop: little in each turn.

Does not depend on the shape of replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from server.apis.generation.replies.update_stages import Batch
from server.http.exchange import Exchange

MANY_SCORES = 2000
"""Log-probabilities that are written in one turn of the event loop: more would hold up other requests."""
SCORE_BYTES = 70
"""About what one takes in a reply."""


def num_scores(update: Any) -> int:
    """The log-probabilities that an update brings, those of alternatives and of the prompt included.

    Each token of a prompt has as many as its first.
    """
    logprobs = update.piece.logprobs
    if logprobs is None:
        return 0
    prompt = logprobs.prompt
    of_prompt = len(prompt) * (1 + len(prompt[0].alternatives)) if prompt else 0
    return of_prompt + sum(1 + len(entry.alternatives) for entry in logprobs.tokens)


async def written(exchange: Exchange, write: Callable[[], bytes], num: int) -> bytes:
    """What `write` makes of `num` log-probabilities: at once where they are few, else off the event loop."""
    if num <= MANY_SCORES:
        return write()
    return await exchange.long_work(write, num * SCORE_BYTES)


async def written_in_turns(
    exchange: Exchange, piece: Callable[[int, Any], bytes], batch: Batch
) -> AsyncIterator[bytes]:
    """What `piece` makes of each update, joined as far as one turn of the event loop allows."""
    for number, (part, num) in enumerate(_parts(batch)):
        if number:
            await asyncio.sleep(0)
        yield await written(exchange, lambda part=part: _joined(piece, part), num)  # type: ignore[misc]


def _joined(piece: Callable[[int, Any], bytes], updates: Iterable[tuple[int, Any]]) -> bytes:
    return b"".join([piece(choice, update) for choice, update in updates])


def _parts(batch: Batch) -> Iterator[tuple[Batch, int]]:
    """Consecutive updates with as many log-probabilities as a turn may have, or one update with more."""
    part: Batch = []
    total = 0
    for choice, update in batch:
        num = num_scores(update)
        if part and total + num > MANY_SCORES:
            yield part, total
            part, total = [], 0
        part.append((choice, update))
        total += num
    yield part, total
