"""What a step of an engine costs, as a line through steps that `tools.lab.profile_step` measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.lab.profile_step.difference import profile_difference

WAITING = ("idle", "warm")
"""The phases of a host's thread in which no request waits for it."""


@dataclass(frozen=True)
class MeasuredStep:
    """Steps of one kind: their tokens and seconds, means of `weight` steps."""

    tokens: float
    seconds: float
    weight: float = 1.0


@dataclass(frozen=True)
class StepCost:
    """A step takes `step_s` seconds and `token_s` more for each token that it computes."""

    step_s: float
    token_s: float

    def seconds(self, num_tokens: int) -> float:
        return self.step_s + self.token_s * num_tokens


def fitted(steps: Iterable[MeasuredStep]) -> StepCost:
    """The line with the least relative error.  Raises ValueError for steps of one size alone."""
    measured = list(steps)
    if len({round(each.tokens, 1) for each in measured}) < 2:
        raise ValueError("steps of one size give no line: profile a server with few and with many streams")
    rows = np.array([[1.0, each.tokens] for each in measured])
    seconds = np.array([each.seconds for each in measured])
    weights = np.sqrt([each.weight for each in measured]) / seconds
    (step_s, token_s), *_ = np.linalg.lstsq(rows * weights[:, None], seconds * weights, rcond=None)
    return StepCost(max(float(step_s), 0.0), max(float(token_s), 0.0))


def measured_steps(file: Path) -> list[MeasuredStep]:
    """The steps in a file of `tools.lab.profile_step --json`, with its share of the host's other work."""
    profiles: list[dict[str, Any]] = json.loads(file.read_text())
    difference = profile_difference(*profiles)
    busy = sum(share for name, share in difference.host.items() if name not in WAITING)
    stepping = sum(kind.seconds for kind in difference.kinds) / difference.seconds
    around = max(1.0, busy / stepping) if stepping else 1.0
    return [
        MeasuredStep(kind.tokens, around * kind.seconds / kind.steps, kind.steps) for kind in difference.kinds
    ]
