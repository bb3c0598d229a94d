"""The engine: requests in, tokens out, one step at a time.

Knows token ids, blocks and steps; knows nothing of text, YAML, HTTP, threads or devices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import count, islice, repeat

import numpy as np

from pipelines.engine import beam_search
from pipelines.engine.arrival import Arrival
from pipelines.engine.beam_search import BeamSearch
from pipelines.engine.beam_submission import check_beams
from pipelines.engine.cache import Cache
from pipelines.engine.counts import Counts
from pipelines.engine.feed import Sampled, Step, TokenLogprobs
from pipelines.engine.growth import grow
from pipelines.engine.outputs import Output, output_of
from pipelines.engine.packing import pack
from pipelines.engine.policy import EngineSettings, blocks_for
from pipelines.engine.rows import Rows
from pipelines.engine.scheduler import Plan, Scheduler
from pipelines.engine.scoring import keep_scores
from pipelines.engine.sequence import NO_ROW, Sequence, Slice
from pipelines.engine.submission import Limits, check
from pipelines.sampling.guide import GuideError, GuideMaker
from pipelines.sampling.params import SamplingParams
from pipelines.sampling.rows import SamplingRows

log = logging.getLogger(__name__)


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
        cache_tokens = num_blocks * block_tokens
        self.limits = Limits(settings.max_sequences, vocab_size, max_context, cache_tokens, block_tokens)
        self.rows = Rows(settings.max_sequences, blocks_for(self.limits.max_context, block_tokens))
        self.cache = Cache(num_blocks, block_tokens, self.rows, settings.reuse_prefixes, num_host_blocks)
        self._sampling = SamplingRows(settings.max_sequences, vocab_size)
        self._totals = Counts()
        self.scheduler = Scheduler(settings, self.cache, self.rows, self._sampling, self._totals)
        self._body = body
        self._eos_token_ids = eos_token_ids
        self._live: dict[Hashable, dict[int, Sequence]] = {}
        self._arrivals = count(1)

    def submit(
        self,
        key: Hashable,
        prompts: list[list[int]],
        params: SamplingParams,
        n: int = 1,
        cache_salt: str = "",
        guide: GuideMaker | None = None,
    ) -> None:
        """Queue `n` choices for each prompt; choice `i * n + k` is the k-th of prompt i.

        `guide` makes for each choice what keeps it to `params.guide`.
        With `params.beams` they are the `n` best of a search, best first; each gets one Output, at its end.

        `key` names the request until all its choices are finished or aborted.  Prefixes are shared only
        between requests of equal `cache_salt`.  Raises RequestError, and then nothing was queued.
        """
        if key in self._live:
            raise ValueError(f"request {key!r} is already running")
        check(prompts, params, n, self.limits)
        if params.beams is not None:
            check_beams(prompts, params, params.beams, n, self._eos_token_ids, self.limits)
        arrival = Arrival(key, prompts, params, n, cache_salt, guide, self._eos_token_ids)
        groups = arrival.groups(self.limits, self._arrivals)
        self._live[key] = {sequence.choice: sequence for group in groups for sequence in group}
        for leader, *_ in groups:
            self.scheduler.add(leader)

    def abort(self, key: Hashable, choice: int | None = None) -> None:
        """Forget one choice, or all, and free its row and blocks now; no Output follows.

        What is unknown or finished already is no error: the client may have gone while it finished.
        """
        given_up = beam_search.given_up(self._live.get(key, {}), choice)
        for sequence in reversed(given_up):  # followers before their leader, so that none inherits in vain
            self._forget(sequence)

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def num_live(self) -> int:
        """Sequences that have not ended: the choices of a request, or all beams of a search."""
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
        if plan.refused or not plan.slices:  # a refusal may have ended what was to run: plan anew
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
        if len(sampled.token_ids) != step.num_sampled:
            raise ValueError(f"{step.num_sampled} tokens were to be sampled, not {len(sampled.token_ids)}")
        if len(sampled.scores) != step.num_scored:
            raise ValueError(f"{step.num_scored} tokens were to be scored, not {len(sampled.scores)}")
        return sampled

    def _commit(self, plan: Plan, step: Step, sampled: Sampled) -> list[Output]:
        """Record what the step computed; the first moment at which anything of it can be seen."""
        self._totals.steps += 1
        self._totals.step_tokens += step.num_tokens
        self._totals.swapped_out_blocks += len(step.swaps_out)
        self._totals.swapped_in_blocks += len(step.swaps_in)
        self.rows.num_past[plan.rows()] = step.num_past + np.diff(step.starts)
        self.rows.last_token[step.logits_rows] = sampled.token_ids
        keep_scores(plan.scoring, sampled.scores)
        chosen = zip(sampled.token_ids.tolist(), sampled.logprobs or repeat(None), strict=False)
        outputs: list[Output] = []
        for slice in plan.slices:
            group = slice.sequence.group if slice.samples else []
            outputs += self._settle(slice, list(islice(chosen, len(group))))
        return outputs

    def _settle(self, slice: Slice, chosen: list[tuple[int, TokenLogprobs | None]]) -> list[Output]:
        """One slice is computed; `chosen` are its group's next tokens, none in the middle of a prompt."""
        sequence, group = slice.sequence, slice.sequence.group
        if sequence.row == NO_ROW:  # its search ended with an earlier slice
            return []
        try:
            sequence.num_cached = slice.end
            self.cache.remember(sequence)
            if chosen:
                self.scheduler.fork(sequence)
            if chosen and sequence.search is not None:
                return self._search(sequence.search, sequence, chosen[0][1])
        except Exception as error:
            return self._fail(group, error)
        return [self._extend(member, *choice) for member, choice in zip(group, chosen, strict=False)]

    def _search(self, search: BeamSearch, beam: Sequence, top: TokenLogprobs | None) -> list[Output]:
        """One beam has reported; if that ended the search, all its choices get what it found."""
        assert top is not None
        if not search.report(beam, top, self.scheduler):
            return []
        for member in reversed(search.beams):
            self._forget(member)
        endings = search.endings()
        self._totals.output_tokens += sum(len(ending.token_ids) for ending in endings)
        return [Output(beam.key, *ending, num_cached=beam.num_reused or 0) for ending in endings]

    def _extend(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Output:
        """One more token, or the end; what goes wrong with one sequence ends that one alone."""
        try:
            return self._append(sequence, token_id, logprobs)
        except GuideError as error:
            self._forget(sequence)
            return Output(
                sequence.key, sequence.choice, [], [], "error", error=str(error), error_status=error.status
            )
        except Exception as error:
            return self._fail([sequence], error)[0]

    def _append(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Output:
        if len(sequence.token_ids) >= sequence.max_length:  # max_tokens is 0: only its prompt was wanted
            self._forget(sequence)
            return output_of(sequence, [], [], "length")
        taken, finish, stop_token_id = grow(sequence, self._sampling, token_id)
        self._totals.output_tokens += len(taken)
        if finish:
            self._forget(sequence)
        elif len(taken) > 1:
            self.rows.last_token[sequence.row] = taken[-1]
        told = [] if logprobs is None or not taken else [logprobs]
        return output_of(sequence, taken, told, finish, stop_token_id)

    def _fail(self, sequences: list[Sequence], error: Exception) -> list[Output]:
        """End `sequences` for a fault that is not theirs to know: the log has it, the client its type."""
        log.error("%d sequences failed with their step", len(sequences), exc_info=error)
        message = f"the step that computed this request failed: {type(error).__name__}"
        failed = beam_search.whole(sequences)
        for sequence in reversed(failed):
            self._forget(sequence)
        return [
            Output(sequence.key, choice, [], [], "error", None, message)
            for sequence in failed
            for choice in beam_search.answered(sequence)
        ]

    def _forget(self, sequence: Sequence) -> None:
        self.scheduler.leave(sequence)
        choices = self._live[sequence.key]
        del choices[sequence.choice]
        if not choices:
            del self._live[sequence.key]
