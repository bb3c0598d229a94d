"""The reply of models/{name}/profile: the time of each node in workers, and of each phase of a model's steps.

Does not depend on HTTP or on what a phase does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from pipelines.telemetry.step_profile import Phase, Steps
from pipelines.wire.messages import Profiled
from server.base.metric_values import NodeRuns
from server.schema.reply_models import Reply


class PhaseTime(Reply):
    """One phase of a kind of steps.  `node` is the type of a line of the body, "" for the engine's own.

    `seconds` is the total, `mean_s` that over all steps of the kind; the rest is of recent steps.
    """

    name: str
    node: str
    seconds: float
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float


class StepTimes(Reply):
    """All steps of one kind: "decoding", "with_prompts", "tensors" or "batches".

    `tokens` were computed, `output_tokens` chosen, `sequences` took part, summed over the steps.  Percentiles
    and maxima are of the last `recent` of them.
    """

    kind: str
    steps: int
    tokens: int
    sequences: int
    output_tokens: int
    recent: int
    step: PhaseTime
    phases: list[PhaseTime]


class EngineTimes(Reply):
    """`node` is the graph's line that owns the engine.  `experts`: how often each routed expert was chosen,
    in each layer; null where the graph does not count it.
    """

    node: str
    kinds: list[StepTimes]
    experts: list[list[int]] | None = None


class WorkerNode(Reply):
    """A node that runs in workers: how often it ran in all of them since the server was started."""

    node: str
    runs: int
    seconds: float
    mean_s: float | None


class HostPhase(Reply):
    name: str
    seconds: float


class HostTimes(Reply):
    """The phases of the engine host since its start; "steps" are those of every model."""

    seconds: float
    phases: list[HostPhase]


class ModelTimes(Reply):
    object: Literal["profile"] = "profile"
    model: str
    worker: list[WorkerNode]
    engines: list[EngineTimes]
    host: HostTimes


def model_times(model: str, profiled: Profiled, worker: Mapping[str, NodeRuns]) -> ModelTimes:
    """`worker` are the graph's nodes in order."""
    host = [HostPhase(name=name, seconds=seconds) for name, seconds in profiled.host.items()]
    engines = [
        EngineTimes(node=node, kinds=[_kind(steps) for steps in kinds], experts=profiled.experts.get(node))
        for node, kinds in profiled.engines.items()
    ]
    return ModelTimes(
        model=model,
        worker=[_worker_node(node, *ran) for node, ran in worker.items()],
        engines=engines,
        host=HostTimes(seconds=sum(phase.seconds for phase in host), phases=host),
    )


def _worker_node(node: str, runs: int, seconds: float) -> WorkerNode:
    return WorkerNode(node=node, runs=runs, seconds=seconds, mean_s=seconds / runs if runs else None)


def _kind(steps: Steps) -> StepTimes:
    counts = {name: getattr(steps, name) for name in StepTimes.model_fields if name not in ("step", "phases")}
    step, *phases = (_phase(phase, steps.steps) for phase in (steps.whole, *steps.phases))
    return StepTimes(**counts, step=step, phases=phases)


def _phase(phase: Phase, num_steps: int) -> PhaseTime:
    return PhaseTime(**asdict(phase), mean_s=phase.seconds / num_steps)
