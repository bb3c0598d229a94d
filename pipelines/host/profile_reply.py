"""Where the host's time goes, and the steps of one load, as a worker is told.

Knows loads and recorders; knows nothing of what a step does.
"""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from pipelines.errors import BraidError
from pipelines.host.instances import ModelInstances
from pipelines.wire.messages import Profile, Profiled


class Turns:
    """Seconds of the host's thread by phase; every moment since it was made is in one of them."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._at_s = perf_counter()

    def mark(self, phase: str) -> None:
        """What was done since the last mark was `phase`."""
        now_s = perf_counter()
        self.seconds[phase] += now_s - self._at_s
        self._at_s = now_s


def profiled(loads: ModelInstances, turns: Turns, asked: Profile) -> Profiled:
    """The answer to `asked`; an error for a load that is not there."""
    try:
        load = loads.find(asked.model, asked.load)
    except BraidError as error:
        return Profiled(asked.request_id, {}, {}, error.message, error.status, error.field)
    engines = {node: engine.profile.told(asked.recent_s) for node, engine in load.model.engines.items()}
    return Profiled(asked.request_id, engines, dict(turns.seconds))
