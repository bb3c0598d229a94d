"""A random life of an engine: arrivals, aborts, preemptions and lost steps, all drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from engine_rig import VOCAB_SIZE, Rig, Text
from numpy.typing import NDArray

from pipelines.inference.contracts.guide import GuideMaker
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.sampling.step_context import StepContext
from pipelines.telemetry.engine_counts import Counts
from pipelines.wire.sampling_params import SamplingParams


@dataclass
class Wanted:
    """One request."""

    prompts: list[list[int]]
    params: SamplingParams
    n: int
    frames: list[NDArray[np.float32]] = field(default_factory=list, kw_only=True)


class Chances(NamedTuple):
    """Of an arrival, each time until there is none; and of what else may happen before a step or in it."""

    arrive: float
    leave: float = 0.03
    preempt: float = 0.0
    lose: float = 0.0


class Life:
    """Subclasses make `rig` and `chances`, and draw requests; `gone` are the choices that were aborted."""

    rig: Rig
    chances: Chances

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.gone: set[tuple[Hashable, int]] = set()

    def request(self, key: int) -> None:
        """Draw one and submit it."""
        raise NotImplementedError

    def ids(self, count: int) -> list[int]:
        return [self.random.randrange(VOCAB_SIZE) for _ in range(count)]

    def submit(self, key: int, asked: Wanted, salt: str = "", guide: GuideMaker | None = None) -> None:
        request = GenerationRequest(
            asked.prompts, asked.params, asked.n, salt, guide=guide, encoder_states=asked.frames
        )
        self.rig.engine.submit(key, request)
        self.rig.texts |= {(key, choice): Text() for choice in range(len(asked.prompts) * asked.n)}

    def leave(self) -> None:
        draw = self.random
        key, choice = draw.choice(list(self.rig.texts))
        whole = draw.random() < 0.5
        self.rig.cancel(key, None if whole else choice)
        self.gone |= {one for one in self.rig.texts if one == (key, choice) or (whole and one[0] == key)}

    def run(self, num_requests: int = 8) -> Counts:
        draw, chances, key = self.random, self.chances, 0
        while key < num_requests or self.rig.engine.has_work:
            while key < num_requests and draw.random() < chances.arrive:
                self.request(key)
                key += 1
            if self.rig.texts and draw.random() < chances.leave:
                self.leave()
            if self.rig.engine.scheduler.running and draw.random() < chances.preempt:
                self.rig.preempt()
            self.step()
            assert len(self.rig.steps) < 5000, "no progress"
        self.rig.run()
        return self.rig.engine.counts()

    def step(self) -> None:
        """One step; some are lost before or after the model ran, some are interrupted there."""
        draw, error = self.random, None
        if draw.random() < self.chances.lose:
            error = draw.choice([RuntimeError("device lost"), KeyboardInterrupt()])
        late = draw.random() < 0.5

        def before(context: StepContext) -> None:
            self.begin(context)
            if error is not None and not late:
                raise error

        def after(step: Step) -> None:
            if error is not None and late:
                raise error

        self.rig.before, self.rig.after = before, after
        try:
            outputs = self.rig.step()
        except KeyboardInterrupt:
            self.rig.check()
            return
        if isinstance(error, RuntimeError):
            assert {output.piece.finish for output in outputs} <= {"error"}

    def begin(self, context: StepContext) -> None:
        """What happens in every step before the model runs."""
