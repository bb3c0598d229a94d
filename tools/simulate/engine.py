"""An engine of the simulation: the real scheduler, cache and policy, around a model that computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.outputs import Output
from pipelines.host.engine.step import Sampled
from pipelines.host.engine.step_context import StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.simulate.step_cost import StepCost


@dataclass(frozen=True)
class EngineSize:
    """The limits of each engine; `num_blocks` of `block_tokens` tokens each are its cache."""

    num_blocks: int = 2048
    block_tokens: int = 16
    max_sequences: int = 32
    max_step_tokens: int = 512
    max_context: int = 4096
    vocab_size: int = 2000


class SimulatedEngine:
    """Steps take as long as `cost` says; the clock is the caller's."""

    def __init__(self, size: EngineSize, cost: StepCost) -> None:
        self._cost = cost
        self._vocab_size = size.vocab_size
        self._num_tokens = 0
        self._drawn = 0
        self._engine = GenerationEngine(
            self._body,
            EngineSettings(size.max_sequences, size.max_step_tokens),
            size.num_blocks,
            size.block_tokens,
            size.vocab_size,
            size.max_context,
            frozenset(),
        )
        self.is_stepping = False
        self.busy_s = 0.0

    @property
    def num_in_flight(self) -> int:
        """Requests that run or wait."""
        return self._engine.num_active

    @property
    def has_work(self) -> bool:
        return self._engine.has_work

    def submit(self, key: int, prompt: list[int], reply_tokens: int) -> None:
        params = SamplingParams(max_tokens=reply_tokens, ignore_eos=True, temperature=0.0)
        self._engine.submit(key, GenerationRequest([prompt], params))

    def step(self) -> tuple[float, list[Output]]:
        """The seconds that the next step takes, and what it gives when they are over."""
        self._num_tokens = 0
        outputs = self._engine.step()
        seconds = self._cost.seconds(self._num_tokens)
        self.busy_s += seconds
        return seconds, outputs

    def _body(self, context: StepContext) -> Sampled:
        """Any tokens will do, as long as no two replies have the same."""
        step = context.step
        self._num_tokens = step.num_tokens
        number = len(step.logit_indices)
        tokens = (self._drawn + np.arange(number, dtype=np.int64)) * 7919 % self._vocab_size
        self._drawn += number
        return Sampled(tokens, [])
