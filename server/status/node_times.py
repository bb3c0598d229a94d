"""The time of each node of a model's graph: since it was loaded, and of the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from graphs.outline import NodeOutline
from pipelines.telemetry.step_profile import Steps
from server.status.reply_models import NodePart, PhasePart

RECENT_S = 10.0
"""What is shown as recent."""
BODY = "body."
"""How phases of steps that are nodes of a body begin."""

Runs = Mapping[str, tuple[int, float]]
"""Path of a node → how often it ran, and for how many seconds."""
Profiles = Mapping[str, Sequence[Steps]]
"""Name of an engine node, of several engines also which engine → its kinds of steps."""


def engine_node(name: str) -> str:
    """The node's own name, without the engine that a profile of several names."""
    return name.partition(" ")[0]


def body_runs(profiles: Profiles) -> dict[str, tuple[int, float]]:
    """Steps and seconds of each node of a body, summed over kinds of steps and engines."""
    found: dict[str, tuple[int, float]] = {}
    for name, kinds in profiles.items():
        for steps in kinds:
            for phase in steps.phases:
                if phase.name.startswith(BODY):
                    path = f"{engine_node(name)}.{phase.name.removeprefix(BODY)}"
                    runs, seconds = found.get(path, (0, 0.0))
                    found[path] = (runs + steps.steps, seconds + phase.seconds)
    return found


def step_runs(profiles: Profiles) -> dict[str, tuple[int, float]]:
    """Steps of each engine node, and seconds of all their phases."""
    found: dict[str, tuple[int, float]] = {}
    for name, kinds in profiles.items():
        runs, seconds = found.get(engine_node(name), (0, 0.0))
        found[engine_node(name)] = (
            runs + sum(steps.steps for steps in kinds),
            seconds + sum(steps.whole.seconds for steps in kinds),
        )
    return found


def phases(profiles: Profiles) -> list[PhasePart]:
    """The phases of steps that are no nodes: what the engine itself does."""
    return [
        PhasePart(
            engine_node=engine_node(name),
            kind=steps.kind,
            name=phase.name,
            seconds=phase.seconds,
            mean_s=phase.seconds / steps.steps if steps.steps else None,
        )
        for name, kinds in profiles.items()
        for steps in kinds
        for phase in steps.phases
        if not phase.name.startswith(BODY)
    ]


class _Then(NamedTuple):
    at_s: float
    runs: Runs


class RecentRuns:
    """What was counted in the last seconds, by the totals that earlier snapshots had."""

    def __init__(self) -> None:
        self._past: deque[_Then] = deque()

    def since(self, now_s: float, runs: Runs) -> Runs:
        """The runs of the last RECENT_S seconds, as far as there were snapshots; remembers this one."""
        while self._past and (now_s - self._past[0].at_s > RECENT_S or _is_smaller(runs, self._past[0].runs)):
            self._past.popleft()
        then: Runs = self._past[0].runs if self._past else runs
        self._past.append(_Then(now_s, runs))
        return {
            path: (count - then.get(path, (0, 0.0))[0], seconds - then.get(path, (0, 0.0))[1])
            for path, (count, seconds) in runs.items()
        }


def _is_smaller(runs: Runs, then: Runs) -> bool:
    """Whether something was counted anew: the model was loaded again."""
    return any(count < then.get(path, (0, 0.0))[0] for path, (count, _) in runs.items())


def node_parts(nodes: Iterable[NodeOutline], totals: Runs, recent: Runs, steps: Runs) -> list[NodePart]:
    """All nodes with their times; `steps` are the totals of engine nodes, of which a body is a part."""
    listed = list(nodes)
    engines = {node.name for node in listed if node.body}
    in_worker = [node.path for node in listed if "." not in node.path and node.path not in engines]
    worker_s = sum(totals.get(path, (0, 0.0))[1] for path in in_worker)
    recent_worker_s = sum(recent.get(path, (0, 0.0))[1] for path in in_worker)

    def part(node: NodeOutline) -> NodePart:
        whole_s, recent_whole_s = worker_s, recent_worker_s
        if node.path in engines or "." in node.path:
            owner = node.path.partition(".")[0]
            whole_s, recent_whole_s = steps.get(owner, (0, 0.0))[1], recent.get(owner, (0, 0.0))[1]
        runs, seconds = totals.get(node.path, (0, 0.0))
        recent_runs, recent_seconds = recent.get(node.path, (0, 0.0))
        return NodePart(
            path=node.path,
            type=node.type,
            process=node.process,
            runs=runs,
            seconds=seconds,
            mean_s=_ratio(seconds, runs),
            share=_ratio(seconds, whole_s),
            recent_mean_s=_ratio(recent_seconds, recent_runs),
            recent_share=_ratio(recent_seconds, recent_whole_s),
            recent_runs=recent_runs,
        )

    return [part(node) for node in listed]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
