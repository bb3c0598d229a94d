"""The engine: requests in, tokens out, one step at a time.

Knows token ids, blocks and steps; knows nothing of text, YAML, HTTP, threads or devices.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from pipelines.engine.cache import Cache
from pipelines.engine.counts import Counts
from pipelines.engine.feed import Sampled, Step, TokenLogprobs
from pipelines.engine.packing import pack
from pipelines.engine.policy import EngineSettings, blocks_for
from pipelines.engine.prefix import root
from pipelines.engine.rows import Rows
from pipelines.engine.scheduler import Plan, Scheduler
from pipelines.engine.sequence import NO_ROW, Sequence
from pipelines.errors import RequestError
from pipelines.sampling import SamplingParams, SamplingRows

log = logging.getLogger(__name__)


class Output(NamedTuple):
    """What one step gave one choice of one request.

    `finish` is None while more will follow, else "stop" (an end token, which is not in `token_ids`),
    "length" (max_tokens, or the context is full) or "error" (`error` is the message for the client).
    `stop_token_id` is the token of `params.stop_token_ids` that ended it, None for the model's own.
    `num_cached` prompt tokens were found in the prefix cache.
    """

    key: Hashable
    choice: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs]  # one per token when they were asked for, else []
    finish: str | None = None
    stop_token_id: int | None = None
    error: str | None = None
    num_cached: int = 0


class Engine:
    """Continuous batching over a paged cache of `num_blocks * block_tokens` tokens, a hard bound.

    Not thread-safe: one thread calls everything.  `body` computes a step: model, then sampler.  A step is a
    transaction: nothing of it is visible before `commit`, and when `body` raises, its blocks go back, its
    own sequences end with an error, and the next `step` runs as if they had never been there.
    """

    def __init__(
        self,
        body: Callable[[Step], Sampled],
        settings: EngineSettings,
        num_blocks: int,
        block_tokens: int,
        vocab_size: int,
        max_context: int,
        eos_token_ids: frozenset[int],
    ) -> None:
        self.settings = settings
        self.vocab_size = vocab_size
        self.eos_token_ids = eos_token_ids
        self.max_context = min(max_context, num_blocks * block_tokens + 1)  # the last token is never cached
        self.rows = Rows(settings.max_sequences, blocks_for(self.max_context, block_tokens))
        self.cache = Cache(num_blocks, block_tokens, self.rows, settings.reuse_prefixes)
        self._sampling = SamplingRows(settings.max_sequences, vocab_size)
        self._totals = Counts()
        self.scheduler = Scheduler(settings, self.cache, self.rows, self._sampling, self._totals)
        self._live: dict[Hashable, dict[int, Sequence]] = {}
        self._num_arrived = 0
        self._body = body

    def submit(
        self,
        key: Hashable,
        prompts: list[list[int]],
        params: SamplingParams,
        n: int = 1,
        cache_salt: str = "",
    ) -> None:
        """Queue `n` choices for each prompt; choice `i * n + k` is the k-th of prompt i.

        `key` names the request until all its choices are finished or aborted.  Prefixes are shared only
        between requests of equal `cache_salt`.  Raises RequestError, and then nothing was queued.
        """
        if key in self._live:
            raise ValueError(f"request {key!r} is already running")
        self._check(prompts, params, n)
        sequences = [
            self._sequence(key, choice, prompts[choice // n], params, cache_salt)
            for choice in range(len(prompts) * n)
        ]
        self._live[key] = {sequence.choice: sequence for sequence in sequences}
        for first in range(0, len(sequences), n):
            leader, *followers = sequences[first : first + n]
            leader.followers = followers
            for follower in followers:
                follower.leader = leader
            self.scheduler.add(leader)

    def abort(self, key: Hashable, choice: int | None = None) -> None:
        """Forget one choice, or all, and free its row and blocks now; no Output follows.

        What is unknown or finished already is no error: the client may have gone while it finished.
        """
        choices = self._live.get(key, {})
        for sequence in list(choices.values()) if choice is None else [choices.get(choice)]:
            if sequence is not None:
                self._forget(sequence)

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    def counts(self) -> Counts:
        """Totals so far and what is held now; the engine goes on counting in the same object."""
        totals, pool = self._totals, self.cache.pool
        num_live = sum(len(choices) for choices in self._live.values())
        totals.running = self.rows.num_taken
        totals.waiting = num_live - totals.running
        totals.blocks_used = pool.num_blocks - pool.num_free
        totals.blocks_total = pool.num_blocks
        return totals

    def step(self) -> list[Output]:
        """One turn: plan → reserve → run the body → commit.  [] when there is nothing to say."""
        plan = self.scheduler.plan()
        outputs = [output for sequence, error in plan.refused for output in self._fail([sequence], error)]
        if plan.slices:
            try:
                with self.cache.reserve(plan.slices) as copies:
                    step = pack(plan, self.rows, copies, self._sampling)
                    sampled = self._run(step)
            except Exception as error:
                ...
            outputs += self._commit(plan, step, sampled)
        return outputs
