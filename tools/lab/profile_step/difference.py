"""Two profiles of a model → what ran between them, as rows for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Profile = dict[str, Any]

KIND_TITLES = {
    "decoding": "decoding only",
    "with_prompts": "with prompts",
    "tensors": "tensor model runs",
    "batches": "batches of texts",
}
NOTHING = {"steps": 0, "tokens": 0, "sequences": 0, "output_tokens": 0, "phases": []}


@dataclass(frozen=True)
class Row:
    """One phase of a kind of steps: `share` of the time of these steps; milliseconds of one step.

    Percentiles and maximum cover the steps for which the engine stores single times.
    """

    phase: str
    node: str
    share: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Kind:
    """Steps of one kind; tokens and sequences are means per step, `seconds` is the total."""

    engine: str
    kind: str
    steps: int
    seconds: float
    tokens: float
    sequences: float
    output_tokens: float
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class WorkerRow:
    """A node in workers: `mean_ms` of a run, `share` of the time of one processor."""

    node: str
    runs: int
    mean_ms: float
    share: float


@dataclass(frozen=True)
class ProfileDifference:
    """What ran in `seconds`; `host` is the share of each phase of the engine host's thread."""

    model: str
    seconds: float
    kinds: list[Kind]
    host: dict[str, float]
    worker: list[WorkerRow]

    @property
    def output_tokens_per_s(self) -> float:
        return sum(one.output_tokens * one.steps for one in self.kinds) / self.seconds

    @property
    def other_steps(self) -> float:
        """Share of the time in which the host ran steps of other models, or failed steps."""
        return max(0.0, self.host.get("steps", 0.0) - sum(one.seconds for one in self.kinds) / self.seconds)


def profile_difference(before: Profile, after: Profile) -> ProfileDifference:
    """What ran between two profiles; for a reloaded model only the second profile counts."""
    seconds = after["host"]["seconds"] - before["host"]["seconds"]
    earlier = {one["name"]: one["seconds"] for one in before["host"]["phases"]}
    host = {
        one["name"]: (one["seconds"] - earlier.get(one["name"], 0.0)) / seconds
        for one in after["host"]["phases"]
    }
    worker = list(_worker(before, after, seconds))
    return ProfileDifference(after["model"], seconds, list(_kinds(before, after)), host, worker)


def _worker(before: Profile, after: Profile, seconds: float) -> Iterator[WorkerRow]:
    known = {one["node"]: one for one in before["worker"]}
    for one in after["worker"]:
        runs = one["runs"] - known[one["node"]]["runs"]
        spent = one["seconds"] - known[one["node"]]["seconds"]
        if runs:
            yield WorkerRow(one["node"], runs, 1e3 * spent / runs, spent / seconds)


def _kinds(before: Profile, after: Profile) -> Iterator[Kind]:
    known = {(engine["node"], one["kind"]): one for engine in before["engines"] for one in engine["kinds"]}
    for engine in after["engines"]:
        for one in engine["kinds"]:
            earlier = known.get((engine["node"], one["kind"]), NOTHING)
            earlier = earlier if earlier["steps"] <= one["steps"] else NOTHING
            if one["steps"] > earlier["steps"]:
                yield _kind(engine["node"], earlier, one)


def _kind(engine: str, before: Profile, after: Profile) -> Kind:
    steps = after["steps"] - before["steps"]
    known = {phase["name"]: phase["seconds"] for phase in before["phases"]}
    spent = {phase["name"]: phase["seconds"] - known.get(phase["name"], 0.0) for phase in after["phases"]}
    seconds = sum(spent.values())
    rows = [
        Row(
            phase["name"],
            phase["node"],
            spent[phase["name"]] / seconds,
            1e3 * spent[phase["name"]] / steps,
            *(1e3 * phase[name] for name in ("p50_s", "p99_s", "max_s")),
        )
        for phase in after["phases"]
    ]
    mean = {name: (after[name] - before[name]) / steps for name in ("tokens", "sequences", "output_tokens")}
    return Kind(engine, after["kind"], steps, seconds, rows=rows, **mean)
