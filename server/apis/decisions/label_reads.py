"""Reads how probable certain tokens are after each of several prompts, without generating a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.base.cancellation import ClientGone
from pipelines.nodes.decisions.reading import TokenRead, token_read
from pipelines.values.tasks import GenerationInput
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.generation_call import open_call
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.request_images import Showing
from server.http.exchange import Exchange
from server.services.services import Services


@dataclass
class Reads:
    """What was read after each prompt, in order, and the tokens that it took."""

    found: list[TokenRead] = field(default_factory=list)
    num_prompt: int = 0
    num_cached: int = 0
    num_output: int = 0


class PromptReader:
    """Runs the prompts of one HTTP request; `showing` are the images of its conversations."""

    def __init__(
        self, services: Services, pipeline: Pipeline, exchange: Exchange, showing: Showing, num_bytes: int
    ) -> None:
        self._services = services
        self._pipeline = pipeline
        self._exchange = exchange
        self._showing = showing
        self._num_bytes = num_bytes

    async def read(self, inputs: Sequence[GenerationInput]) -> Reads:
        """What each prompt of the inputs gives, in order.

        The first input runs alone: the others find in the cache what they have in common with it.  Raises
        RequestError, and ClientGone when the client disconnects.
        """
        first, *others = inputs
        reads = Reads()
        for group in ([first], others):
            for part in await asyncio.gather(*map(self._one, group)):
                reads.found += part.found
                reads.num_prompt += part.num_prompt
                reads.num_cached += part.num_cached
                reads.num_output += part.num_output
        return reads

    async def _one(self, prompts: GenerationInput) -> Reads:
        exchange = self._exchange
        call = await open_call(
            self._services, self._pipeline, lambda _: prompts, exchange, self._num_bytes, self._showing
        )
        exchange.at_end(call.close)
        exchange.when_gone(call.close)
        counter, reads = TokenCounter(call.prompt_lengths, 1, lambda: call.others), dict[int, TokenRead]()
        async for batch in call.updates():
            for choice, update in batch:
                counter.add(choice, update)
                if update.piece.logprobs is not None:
                    reads[choice] = token_read(update.piece.logprobs.tokens[0])
        if not counter.complete:
            raise ClientGone
        in_order = [reads[choice] for choice in range(counter.num_choices)]
        return Reads(in_order, counter.num_prompt, counter.num_cached, counter.num_output)
