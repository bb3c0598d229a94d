"""The engines' counts → metrics, a few times a second.  Decides when; `metrics.py` knows names."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pipelines import metrics
from pipelines.host.loads import Loads

if TYPE_CHECKING:
    from pipelines.engine.counts import Counts
    from pipelines.engine.loop import Engine

PERIOD_S = 0.3
"""Between two publications while engines are busy; when they fall idle the last one comes at once."""


class Publisher:
    """Writes what changed since it last wrote.  Belongs to the host's main thread."""

    def __init__(self, loads: Loads, clock: Callable[[], float] = time.monotonic) -> None:
        self._loads = loads
        self._clock = clock
        self._changed_at_s: float | None = None
        self._published: WeakKeyDictionary[Engine, Counts] = WeakKeyDictionary()

    def note_change(self) -> None:
        """An engine did something."""
        if self._changed_at_s is None:
            self._changed_at_s = self._clock()

    def publish(self, busy: bool) -> None:
        """Write, if something changed and, while `busy`, PERIOD_S ago."""
        since_s = self._changed_at_s
        if since_s is None or (busy and self._clock() - since_s < PERIOD_S):
            return
        self._changed_at_s = None
        by_model: dict[str, list[Counts]] = defaultdict(list)
        for load in self._loads:
            name = load.folder.name
            by_model[name] += [self._progress(name, engine) for engine in load.model.engines.values()]
        for name, counts in by_model.items():
            metrics.engine_load(name, counts)

    def _progress(self, model: str, engine: Engine) -> Counts:
        now = copy.copy(engine.counts())
        metrics.engine_progress(model, now, self._published.get(engine))
        self._published[engine] = now
        return now
