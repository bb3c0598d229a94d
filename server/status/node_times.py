"""The time of each node of a model's graph: since it was loaded, and of the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from graphs.outline import NodeOutline
from pipelines.wire.engine_view import RECENT_S, NodeView, PhaseTimes
from server.base.metric_values import NodeRuns
from server.status.reply_models import NodePart, PhasePart

BODY = "body."
"""How phases of steps that are nodes of a body begin."""
NO_RUNS = NodeRuns(0, 0.0)


class Times(NamedTuple):
    """What was counted of a node: in all, and in the last RECENT_S seconds."""

    total: NodeRuns = NO_RUNS
    recent: NodeRuns = NO_RUNS

    def plus(self, other: Times) -> Times:
        return Times(_sum(self.total, other.total), _sum(self.recent, other.recent))


def _sum(one: NodeRuns, other: NodeRuns) -> NodeRuns:
    return NodeRuns(one.runs + other.runs, one.seconds + other.seconds)


class EngineNodeTimes(NamedTuple):
    """Times of the nodes of bodies by their paths, and of whole steps by the name of the engine node.

    `opened`: how models are run, by the paths of the nodes that opened them.
    """

    bodies: dict[str, Times]
    steps: dict[str, Times]
    opened: dict[str, dict[str, str]]


def engine_times(views: Iterable[NodeView]) -> EngineNodeTimes:
    """Sums over the kinds of steps, and over engines."""
    times = EngineNodeTimes({}, {}, {})
    for view in views:
        times.opened.update({f"{view.node}.{line}": facts for line, facts in view.opened.items()})
        for kind in {phase.kind for phase in view.phases}:
            phases = [phase for phase in view.phases if phase.kind == kind]
            _add(times.steps, view.node, _step(phases))
            for phase in phases:
                if phase.name.startswith(BODY):
                    _add(times.bodies, f"{view.node}.{phase.name.removeprefix(BODY)}", _times(phase))
    return times


def _add(times: dict[str, Times], path: str, more: Times) -> None:
    times[path] = times.get(path, Times()).plus(more)


def _times(phase: PhaseTimes) -> Times:
    return Times(NodeRuns(phase.steps, phase.seconds), NodeRuns(phase.recent_steps, phase.recent_s))


def _step(phases: Sequence[PhaseTimes]) -> Times:
    """A whole step has the time of all its phases."""
    return Times(
        NodeRuns(max(phase.steps for phase in phases), sum(phase.seconds for phase in phases)),
        NodeRuns(max(phase.recent_steps for phase in phases), sum(phase.recent_s for phase in phases)),
    )


def phase_parts(views: Iterable[NodeView]) -> list[PhasePart]:
    """The phases of steps that are no nodes: what the engine itself does."""
    return [
        PhasePart(
            engine_node=view.node,
            kind=phase.kind,
            name=phase.name,
            seconds=phase.seconds,
            mean_s=_ratio(phase.seconds, phase.steps),
        )
        for view in views
        for phase in view.phases
        if not phase.name.startswith(BODY)
    ]


class WorkerTimes:
    """What the nodes of one model did in workers in the last seconds, by the totals of earlier snapshots."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, Mapping[str, NodeRuns]]] = deque()

    def since(self, now_s: float, runs: Mapping[str, NodeRuns]) -> dict[str, Times]:
        """The totals `runs`, with those of the last RECENT_S seconds as far as there were snapshots."""
        while len(self._past) > 1 and now_s - self._past[1][0] >= RECENT_S:
            self._past.popleft()
        if self._past and now_s - self._past[-1][0] > RECENT_S:
            self._past.clear()  # no snapshot was made meanwhile
        then = self._past[0][1] if self._past else runs
        self._past.append((now_s, runs))
        return {
            path: Times(total, _difference(total, then.get(path, NO_RUNS))) for path, total in runs.items()
        }


def _difference(now: NodeRuns, then: NodeRuns) -> NodeRuns:
    return NodeRuns(now.runs - then.runs, now.seconds - then.seconds)


def node_parts(
    nodes: Iterable[NodeOutline], worker: Mapping[str, Times], engine: EngineNodeTimes
) -> Iterator[NodePart]:
    """All nodes with their times; those of an engine node are those of its steps."""
    listed = list(nodes)
    engines = {node.path for node in listed if node.body}
    in_worker = [node.path for node in listed if "." not in node.path and node.path not in engines]
    of_worker = Times()
    for path in in_worker:
        of_worker = of_worker.plus(worker.get(path, Times()))
    for node in listed:
        owner = node.path.partition(".")[0]
        if owner not in engines:
            yield _part(node, worker.get(node.path, Times()), of_worker)
        else:
            step = engine.steps.get(owner, Times())
            spent = step if node.body else engine.bodies.get(node.path, Times())
            yield _part(node, spent, step, engine.opened.get(node.path))


def _part(node: NodeOutline, times: Times, whole: Times, opened: dict[str, str] | None = None) -> NodePart:
    total, recent = times
    return NodePart(
        path=node.path,
        type=node.type,
        process=node.process,
        runs=total.runs,
        seconds=total.seconds,
        mean_s=_ratio(total.seconds, total.runs),
        share=_ratio(total.seconds, whole.total.seconds),
        recent_mean_s=_ratio(recent.seconds, recent.runs),
        recent_share=_ratio(recent.seconds, whole.recent.seconds),
        recent_runs=recent.runs,
        opened=opened or {},
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
