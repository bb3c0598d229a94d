"""An engine of the simulation: the real scheduler, cache and policy, around a model that computes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

import numpy as np

from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.outputs import Output
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences.policy import blocks_for
from pipelines.inference.sampling.step_context import StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.simulate.step_cost import StepCost


@dataclass(frozen=True)
class EngineSize:
    """The limits of each engine; `num_blocks` of `block_tokens` tokens each are its cache."""

    num_blocks: int = 2048
    block_tokens: int = 16
    max_sequences: int = 32
    max_step_tokens: int = 512
    max_context: int = 4096
    vocab_size: int = 2000


class Run(NamedTuple):
    """Steps that are alike: `length` of them, from `begin_s` on, of `step_s` seconds each."""

    begin_s: float
    step_s: float
    length: int

    @property
    def end_s(self) -> float:
        return self.begin_s + self.length * self.step_s

    def up_to(self, now_s: float) -> Run:
        """The steps that have begun at `now_s`, at least one."""
        begun = ceil((now_s - self.begin_s) / self.step_s) if self.step_s else self.length
        return self._replace(length=min(self.length, max(1, begun)))


class SimulatedEngine:
    """Steps take as long as `cost` says; the clock is the caller's.

    Steps in which all sequences only decode are alike until one of them ends, or a request comes.  They are
    computed as one: as a step in which each sequence had draft tokens, all of them accepted.
    """

    def __init__(self, size: EngineSize, cost: StepCost) -> None:
        self._cost = cost
        self._size = size
        self._drawn = 0
        settings = EngineSettings(
            size.max_sequences,
            size.max_step_tokens,
            max_scored_tokens=size.max_step_tokens,
            num_draft_tokens=size.max_step_tokens,
        )
        self._engine = GenerationEngine(
            StepBody(self._body),
            settings,
            ModelShape(size.vocab_size, size.max_context, size.block_tokens),
            CacheSize(size.num_blocks),
            frozenset(),
        )
        self._outputs: list[Output] = []
        self._step_tokens = 0
        self._run: Run | None = None
        self.end_s: float | None = None
        """When the steps in progress end; None while there are none."""
        self.busy_s = 0.0

    def submit(self, now_s: float, key: int, prompt: list[int], reply_tokens: int) -> None:
        """`key` runs from the next step on; a run of steps ends, at the latest, with the present one."""
        if self._run is not None:
            self._compute_run(self._run.up_to(now_s))
        params = SamplingParams(max_tokens=reply_tokens, ignore_eos=True, temperature=0.0)
        self._engine.submit(key, GenerationRequest([prompt], params))

    def begin(self, now_s: float) -> None:
        """Begin the next steps, if there is work; needs `end_s` None."""
        if not self._engine.has_work:
            return
        length = self._run_length()
        if length > 1:
            self._run = Run(now_s, self._cost.seconds(self._num_running), length)
            self.end_s = self._run.end_s
        else:
            self._outputs = self._compute(1)
            self._take(now_s, self._cost.seconds(self._step_tokens))

    def end(self) -> list[Output]:
        """What the steps in progress have given, at `end_s`."""
        if self._run is not None:
            self._compute_run(self._run)
        self.end_s = None
        return self._outputs

    def _take(self, begin_s: float, seconds: float) -> None:
        self.busy_s += seconds
        self.end_s = begin_s + seconds

    @property
    def _num_running(self) -> int:
        return len(self._engine.scheduler.running)

    def _run_length(self) -> int:
        """How many next steps will be alike: none admits or preempts a sequence, gives a first token,
        or ends a sequence but the last of them.
        """
        running = self._engine.scheduler.running
        if self._engine.scheduler.waiting or any(
            sequence.num_pending > 1 or not sequence.num_output for sequence in running
        ):
            return 1
        most = self._size.max_step_tokens // len(running)
        length = min(most, *(sequence.request.max_length - len(sequence.token_ids) for sequence in running))
        needed = sum(
            blocks_for(sequence.num_cached + length, self._size.block_tokens) - len(sequence.blocks)
            for sequence in running
        )
        return length if needed <= self._engine.cache.pool.num_free else 1

    def _compute_run(self, run: Run) -> None:
        self._run = None
        self._outputs = self._compute(run.length)
        self._take(run.begin_s, run.length * run.step_s)

    def _compute(self, length: int) -> list[Output]:
        """The engine's next step; each decoding sequence gets `length` tokens."""
        scheduler = self._engine.scheduler
        scheduler.settings = replace(scheduler.settings, num_draft_tokens=length - 1)
        return self._engine.step()

    def _body(self, context: StepContext) -> Sampled:
        """Any tokens will do, as long as no two replies have the same."""
        step = context.step
        assert step.draft_budget is not None
        self._step_tokens = step.num_tokens
        num_drafted = step.draft_budget[: len(step.logit_slots)].astype(np.int64)
        number = len(num_drafted) + int(num_drafted.sum())
        tokens = (self._drawn + np.arange(number, dtype=np.int64)) * 7919 % self._size.vocab_size
        self._drawn += number
        return Sampled(tokens, [], num_tokens=num_drafted + 1, num_drafted=num_drafted)
