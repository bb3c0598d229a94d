"""Two profiles of a model → what ran between them, as rows for people.

Pure; the profiles are what `GET models/{name}/profile` replies, as plain dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Told = dict[str, Any]

TITLES = {
    "decoding": "decoding alone",
    "with_prompts": "with prompts",
    "tensors": "runs over tensors",
    "batches": "batches of texts",
}
NOTHING = {"steps": 0, "tokens": 0, "sequences": 0, "output_tokens": 0, "phases": []}


@dataclass(frozen=True)
class Row:
    """One phase of a kind of steps: `share` of the time of these steps; milliseconds of one step.

    Percentiles and maximum are of those steps among them that the engine keeps singly.
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
    """Steps of one kind; tokens and sequences are means of a step, `seconds` theirs together."""

    engine: str
    kind: str
    steps: int
    seconds: float
    tokens: float
    sequences: float
    output_tokens: float
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Between:
    """`seconds` passed; `host` is the part of them by phase of the engine host's thread."""

    model: str
    seconds: float
    kinds: list[Kind]
    host: dict[str, float]

    @property
    def output_tokens_per_s(self) -> float:
        return sum(one.output_tokens * one.steps for one in self.kinds) / self.seconds

    @property
    def other_steps(self) -> float:
        """Part of the time in which the host stepped, but not this model, or failed to."""
        return max(0.0, self.host.get("steps", 0.0) - sum(one.seconds for one in self.kinds) / self.seconds)


def between(before: Told, after: Told) -> Between:
    """What ran from one profile to the next; a model that was loaded anew began with the second."""
    seconds = after["host"]["seconds"] - before["host"]["seconds"]
    earlier = {one["name"]: one["seconds"] for one in before["host"]["phases"]}
    host = {
        one["name"]: (one["seconds"] - earlier.get(one["name"], 0.0)) / seconds
        for one in after["host"]["phases"]
    }
    return Between(after["model"], seconds, list(_kinds(before, after)), host)


def _kinds(before: Told, after: Told) -> Iterator[Kind]:
    known = {(engine["node"], one["kind"]): one for engine in before["engines"] for one in engine["kinds"]}
    for engine in after["engines"]:
        for one in engine["kinds"]:
            earlier = known.get((engine["node"], one["kind"]), NOTHING)
            earlier = earlier if earlier["steps"] <= one["steps"] else NOTHING
            if one["steps"] > earlier["steps"]:
                yield _kind(engine["node"], earlier, one)


def _kind(engine: str, before: Told, after: Told) -> Kind:
    steps = after["steps"] - before["steps"]
    known = {one["name"]: one["seconds"] for one in before["phases"]}
    spent = {one["name"]: one["seconds"] - known.get(one["name"], 0.0) for one in after["phases"]}
    seconds = sum(spent.values())
    rows = [
        Row(
            one["name"],
            one["node"],
            spent[one["name"]] / seconds,
            1e3 * spent[one["name"]] / steps,
            *(1e3 * one[name] for name in ("p50_s", "p99_s", "max_s")),
        )
        for one in after["phases"]
    ]
    mean = {name: (after[name] - before[name]) / steps for name in ("tokens", "sequences", "output_tokens")}
    return Kind(engine, after["kind"], steps, seconds, rows=rows, **mean)
