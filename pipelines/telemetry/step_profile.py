"""Times the phases of an engine's steps: always on, a few clock readings per step."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from time import perf_counter

DECODING, PROMPTS, TENSORS, BATCHES = "decoding", "with_prompts", "tensors", "batches"
"""Kinds of steps: every sequence grows by a token; some compute a prompt; over tensors; over whole texts."""

NUM_RECENT = 512
"""Recent steps whose phases are stored, for percentiles."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of all steps of a kind; `node` is the type of a line of the body, "" for the engine's own.

    `seconds` is a total; percentiles and maximum are of the recent steps that had this phase.
    """

    name: str
    node: str
    seconds: float
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps of one kind that did not fail; `whole` is a step with all its phases.

    `tokens` were computed, `output_tokens` chosen, `sequences` took part, each summed over the `steps`.
    Percentiles are of the `recent` last of them.
    """

    kind: str
    steps: int
    tokens: int
    sequences: int
    output_tokens: int
    recent: int
    whole: Phase
    phases: list[Phase]


@dataclass(slots=True)
class Totals:
    """What the steps of one kind add up to; `seconds` by the name of the phase."""

    steps: int = 0
    tokens: int = 0
    sequences: int = 0
    output_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))


KindSums = tuple[int, dict[str, float]]
"""The steps of one kind, and the seconds of each of their phases."""
Laps = list[tuple[str, float]]
"""Names of phases and when each ended, by the clock; the first has no name and is when the step began."""


class _Running(threading.local):
    """The step that a thread is in, or was in last; `kind` is None until it ended."""

    def __init__(self) -> None:
        self.laps: Laps = [("", 0.0)]
        self.kind: str | None = None


class StepProfile:
    """The recorder of one engine: `start`, `mark` after each phase, `end`; then `after` for what follows.

    A failed step, which has no `end`, leaves nothing.  Each thread that steps has its own step; `summary`
    may be called from any.
    """

    def __init__(self, nodes: Mapping[str, str] | None = None) -> None:
        """`nodes` are phases that are lines of a body, with the types of their nodes."""
        self.totals: dict[str, Totals] = {}
        self.nodes = nodes or {}
        self._step = _Running()
        self._lock = threading.Lock()
        self._recent: deque[tuple[str, Laps]] = deque(maxlen=NUM_RECENT)

    def start(self) -> None:
        """A step begins now."""
        step = self._step
        step.kind, step.laps = None, [("", perf_counter())]

    def mark(self, phase: str) -> None:
        """What the step did since its last mark was `phase`."""
        self._step.laps.append((phase, perf_counter()))

    def mark_part(self, phase: str, seconds: float) -> None:
        """The first `seconds` of what the step did since its last mark were `phase`."""
        laps = self._step.laps
        laps.append((phase, min(laps[-1][1] + seconds, perf_counter())))

    def end(self, kind: str, num_tokens: int, num_sequences: int, num_output_tokens: int) -> None:
        """The step ended with its last mark."""
        laps, self._step.kind = self._step.laps, kind
        with self._lock:
            totals = self.totals.setdefault(kind, Totals())
            totals.steps += 1
            totals.tokens += num_tokens
            totals.sequences += num_sequences
            totals.output_tokens += num_output_tokens
            seconds, (_, at_s) = totals.seconds, laps[0]
            for phase, then_s in laps[1:]:
                seconds[phase] += then_s - at_s
                at_s = then_s
            self._recent.append((kind, laps))

    def after(self, phase: str) -> None:
        """What was done for the step since it ended; nothing when it failed."""
        step = self._step
        if step.kind is not None:
            self.mark(phase)
            (_, from_s), (_, to_s) = step.laps[-2:]
            with self._lock:
                self.totals[step.kind].seconds[phase] += to_s - from_s

    def sums(self) -> dict[str, KindSums]:
        """All steps by kind: what `summary` adds up, for a few microseconds."""
        with self._lock:
            return {kind: (totals.steps, dict(totals.seconds)) for kind, totals in self.totals.items()}

    def summary(self, recent_s: float = inf) -> list[Steps]:
        """All of it, a kind of steps after another; percentiles of what ended in the last `recent_s` seconds.

        Costs a few milliseconds.
        """
        since_s = perf_counter() - recent_s
        recent = [(kind, laps) for kind, laps in list(self._recent) if laps[-1][1] > since_s]
        return [
            self._steps(kind, totals, [laps for other, laps in recent if other == kind])
            for kind, totals in list(self.totals.items())
        ]

    def _steps(self, kind: str, totals: Totals, recent: list[Laps]) -> Steps:
        seconds = dict(totals.seconds)
        laps = _by_phase(recent, seconds)
        return Steps(
            kind,
            totals.steps,
            totals.tokens,
            totals.sequences,
            totals.output_tokens,
            len(recent),
            _phase("step", "", sum(seconds.values()), [step[-1][1] - step[0][1] for step in recent]),
            [_phase(name, self.nodes.get(name, ""), seconds[name], laps[name]) for name in seconds],
        )


def _by_phase(steps: list[Laps], names: Iterable[str]) -> dict[str, list[float]]:
    """Seconds of each phase in each step that had it."""
    laps: dict[str, list[float]] = {name: [] for name in names}
    for step in steps:
        for (_, from_s), (name, to_s) in pairwise(step):
            laps[name].append(to_s - from_s)
    return laps


def _phase(name: str, node: str, seconds: float, laps: list[float]) -> Phase:
    if not laps:
        return Phase(name, node, seconds)
    laps.sort()
    return Phase(name, node, seconds, _rank(laps, 0.5), _rank(laps, 0.99), laps[-1])


def _rank(ordered: list[float], part: float) -> float:
    """The smallest value that is no less than `part` of all."""
    return ordered[ceil(part * len(ordered)) - 1]
