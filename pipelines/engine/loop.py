"""The engine: requests in, tokens out, one step at a time.

Knows token ids, blocks and steps; knows nothing of text, YAML, HTTP, threads or devices.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from pipelines.engine.cache import Cache
from pipelines.engine.counts import Counts
from pipelines.engine.feed import Sampled, Step, TokenLogprobs
from pipelines.engine.packing import pack
from pipelines.engine.policy import EngineSettings, blocks_for
from pipelines.engine.prefix import root
from pipelines.engine.rows import Rows
from pipelines.engine.scheduler import Plan, Scheduler
from pipelines.engine.sequence import Sequence, Slice
from pipelines.engine.submission import Limits, check
from pipelines.sampling.params import SamplingParams
from pipelines.sampling.rows import SamplingRows

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
    own sequences end with an error, and the next `step` runs as if they had never been there.  Sequences
    that it should have swapped out are not its own: they go on, and are computed again.

    `num_host_blocks` blocks in host memory take what preempted sequences have computed; without room there
    it is computed again.
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
        num_host_blocks: int = 0,
    ) -> None:
        self.limits = Limits(settings.max_sequences, vocab_size, max_context, num_blocks * block_tokens)
        self.rows = Rows(settings.max_sequences, blocks_for(self.limits.max_context, block_tokens))
        self.cache = Cache(num_blocks, block_tokens, self.rows, settings.reuse_prefixes, num_host_blocks)
        self._sampling = SamplingRows(settings.max_sequences, vocab_size)
        self._totals = Counts()
        self.scheduler = Scheduler(settings, self.cache, self.rows, self._sampling, self._totals)
        self._body = body
        self._eos_token_ids = eos_token_ids
        self._max_context = self.limits.max_context
        self._live: dict[Hashable, dict[int, Sequence]] = {}
        self._num_arrived = 0

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
        check(prompts, params, n, self.limits)
        sequences = [
            self._arrive(key, choice, prompts[choice // n], params, cache_salt)
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
        wanted = list(choices) if choice is None else [choice]
        for number in reversed(wanted):  # followers before their leader, so that none inherits in vain
            if number in choices:
                self._forget(choices[number])

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def num_live(self) -> int:
        """Choices submitted and neither finished nor aborted."""
        return sum(len(choices) for choices in self._live.values())

    def counts(self) -> Counts:
        """What is held now and what was done so far; the caller's own copy."""
        pool, swap, running = self.cache.pool, self.cache.swap, self.rows.num_taken
        return replace(
            self._totals,
            running=running,
            waiting=self.num_live - running,
            swapped=sum(len(sequence.group) for sequence in self.scheduler.waiting if sequence.host_blocks),
            blocks_used=pool.num_blocks - pool.num_free,
            blocks_total=pool.num_blocks,
            host_blocks_used=swap.num_blocks - swap.num_free,
            host_blocks_total=swap.num_blocks,
        )

    def step(self) -> list[Output]:
        """One turn: plan → reserve → run the body → commit.  [] when there is nothing to say."""
        plan = self.scheduler.plan()
        outputs = [output for sequence, error in plan.refused for output in self._fail(sequence.group, error)]
        if not plan.slices:
            return outputs
        try:
            with self.cache.reserve(plan.slices) as moves:
                step = pack(plan, self.rows, moves, self._sampling)
                sampled = self._run(step)
        except Exception as error:
            self._totals.failed_steps += 1
            return outputs + self._fail(plan.sequences, error)
        return outputs + self._commit(plan, step, sampled)

    def _run(self, step: Step) -> Sampled:
        sampled = self._body(step)
        if len(sampled.token_ids) != step.num_logits:
            raise ValueError(f"{step.num_logits} tokens were to be sampled, not {len(sampled.token_ids)}")
        return sampled

    def _commit(self, plan: Plan, step: Step, sampled: Sampled) -> list[Output]:
        """Record what the step computed; the first moment at which anything of it can be seen."""
        self._totals.steps += 1
        self._totals.step_tokens += step.num_tokens
        self._totals.swapped_out_blocks += len(step.swaps_out)
        self._totals.swapped_in_blocks += len(step.swaps_in)
        self.rows.num_past[plan.rows()] = step.num_past + np.diff(step.starts)
        self.rows.last_token[step.logits_rows] = sampled.token_ids
        chosen = zip(sampled.token_ids.tolist(), sampled.logprobs or repeat(None), strict=False)
        outputs: list[Output] = []
        for slice in plan.slices:
            group = slice.sequence.group if slice.samples else []
            outputs += self._settle(slice, list(islice(chosen, len(group))))
        return outputs

    def _settle(self, slice: Slice, chosen: list[tuple[int, TokenLogprobs | None]]) -> list[Output]:
        """One slice is computed; `chosen` are its group's next tokens, none in the middle of a prompt."""
        sequence, group = slice.sequence, slice.sequence.group
        try:
            sequence.num_cached = slice.end
            self.cache.remember(sequence)
            if chosen:
                self.scheduler.fork(sequence)
        except Exception as error:
            return self._fail(group, error)
        return [self._extend(member, *choice) for member, choice in zip(group, chosen, strict=False)]

    def _extend(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Output:
        """One more token, or the end; what goes wrong with one sequence ends that one alone."""
        try:
            return self._append(sequence, token_id, logprobs)
        except Exception as error:
            return self._fail([sequence], error)[0]

    def _append(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Output:
        stops = token_id in sequence.stop_token_ids
        if stops or token_id in sequence.eos_token_ids:
            self._forget(sequence)
            named = stops and token_id not in sequence.eos_token_ids
            return _output(sequence, [], [], "stop", token_id if named else None)
        sequence.token_ids.append(token_id)
        self._sampling.append(sequence.row, token_id)
        self._totals.output_tokens += 1
        full = len(sequence.token_ids) >= self._max_context
        finish = "length" if full or sequence.num_output >= sequence.params.max_tokens else None
        if finish:
            self._forget(sequence)
        return _output(sequence, [token_id], [] if logprobs is None else [logprobs], finish)

    def _fail(self, sequences: list[Sequence], error: Exception) -> list[Output]:
        """End `sequences` for a fault that is not theirs to know: the log has it, the client its type."""
        log.error("%d sequences failed with their step", len(sequences), exc_info=error)
        message = f"the step that computed this request failed: {type(error).__name__}"
        for sequence in reversed(sequences):
            self._forget(sequence)
        return [Output(s.key, s.choice, [], [], "error", None, message) for s in sequences]

    def _arrive(
        self, key: Hashable, choice: int, prompt: list[int], params: SamplingParams, cache_salt: str
    ) -> Sequence:
        self._num_arrived += 1
        return Sequence(
            key=key,
            choice=choice,
            token_ids=array("q", prompt),
            num_prompt=len(prompt),
            params=params,
            eos_token_ids=frozenset() if params.ignore_eos else self._eos_token_ids,
            stop_token_ids=frozenset(params.stop_token_ids),
            arrival=self._num_arrived,
            root=root(cache_salt),
        )

    def _forget(self, sequence: Sequence) -> None:
        self.scheduler.leave(sequence)
        choices = self._live[sequence.key]
        del choices[sequence.choice]
        if not choices:
            del self._live[sequence.key]


def _output(
    sequence: Sequence,
    token_ids: list[int],
    logprobs: list[TokenLogprobs],
    finish: str | None,
    stop_token_id: int | None = None,
) -> Output:
    num_cached = sequence.num_reused or 0
    return Output(
        sequence.key, sequence.choice, token_ids, logprobs, finish, stop_token_id, num_cached=num_cached
    )
