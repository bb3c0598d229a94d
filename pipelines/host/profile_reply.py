"""The reply to a profile request: where the host's time goes, and the steps of one model instance."""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from pipelines.base.errors import BraidError
from pipelines.host.models.instances import ModelInstances
from pipelines.wire.messages import Profile, Profiled


class LoopTimes:
    """Seconds of the host's thread by phase; every moment since it was made belongs to one phase."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._at_s = perf_counter()

    def mark(self, phase: str) -> None:
        """Add the time since the last mark to `phase`."""
        now_s = perf_counter()
        self.seconds[phase] += now_s - self._at_s
        self._at_s = now_s


def profiled(instances: ModelInstances, loop_times: LoopTimes, request: Profile) -> Profiled:
    """The reply; it has an error for an unknown instance."""
    try:
        instance = instances.find(request.model, request.instance_id)
    except BraidError as error:
        return Profiled(request.request_id, {}, {}, error.message, error.status, error.field, error.word)
    engines = {
        node: engine.profile.summary(request.recent_s) for node, engine in instance.model.engines.items()
    }
    counts = [engine.counts() for engine in instance.model.engines.values()]
    running, waiting = sum(count.running for count in counts), sum(count.waiting for count in counts)
    experts = {
        node: engine.routed_experts.counts.tolist()
        for node, engine in instance.model.stepped.items()
        if engine.routed_experts is not None
    }
    host = dict(loop_times.seconds)
    return Profiled(request.request_id, engines, host, running=running, waiting=waiting, experts=experts)
