"""Where the host's time goes, and the steps of one instance, as a worker is told.

Knows loads and recorders; knows nothing of what a step does.
"""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from pipelines.errors import BraidError
from pipelines.host.instances import ModelInstances
from pipelines.wire.messages import Profile, Profiled


class LoopTimes:
    """Seconds of the host's thread by phase; every moment since it was made is in one of them."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._at_s = perf_counter()

    def mark(self, phase: str) -> None:
        """What was done since the last mark was `phase`."""
        now_s = perf_counter()
        self.seconds[phase] += now_s - self._at_s
        self._at_s = now_s


def profiled(instances: ModelInstances, loop_times: LoopTimes, asked: Profile) -> Profiled:
    """The answer to `asked`; an error for a instance that is not there."""
    try:
        instance = instances.find(asked.model, asked.instance_id)
    except BraidError as error:
        return Profiled(asked.request_id, {}, {}, error.message, error.status, error.field)
    engines = {
        node: engine.profile.summary(asked.recent_s) for node, engine in instance.model.engines.items()
    }
    return Profiled(asked.request_id, engines, dict(loop_times.seconds))
