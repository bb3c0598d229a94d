"""The last ten minutes of each model: once a second, what its engines hold and what they have done since."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, get_args
from weakref import WeakKeyDictionary

from pipelines.host.models.in_flight import Calls
from pipelines.host.models.instances import ModelInstances
from pipelines.inference.engine.interface.engine_contract import Engine
from pipelines.telemetry.engine_counts import Counts
from pipelines.wire.engine_view import (
    HISTORY_PERIOD_S,
    HISTORY_SAMPLES,
    History,
    ModelTotals,
    Series,
)

HELD: tuple[Series, ...] = ("running", "waiting", "blocks_used", "blocks_reusable")
"""Fields of Counts that are of a moment."""
DONE: dict[Series, str] = {
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "output_tokens",
    "prefix_queries": "prefix_query_tokens",
    "prefix_hits": "prefix_hit_tokens",
    "draft_tokens": "draft_tokens",
    "accepted_tokens": "accepted_tokens",
    "preemptions": "preemptions",
}
"""Series of what was done in a period → the fields of Counts that add it up."""


class _ModelHistory:
    """One model's series, and what its engines have done since the host began."""

    def __init__(self) -> None:
        self.series: dict[Series, deque[float]] = {
            name: deque(maxlen=HISTORY_SAMPLES) for name in get_args(Series)
        }
        self.done: Counter[Series] = Counter()
        self.num_absent = 0  # periods since it was in memory
        self._sampled: Counter[Series] = Counter()

    def sample(self, held: Counter[Series], num_periods: int) -> None:
        """Add samples for the periods that have passed: what was done is spread evenly over them."""
        for name, series in self.series.items():
            value = (self.done[name] - self._sampled[name]) / num_periods if name in DONE else held[name]
            series.extend([value] * min(num_periods, HISTORY_SAMPLES))
        self._sampled = self.done.copy()


class Histories:
    """Belongs to the host's main thread.  A model that left memory is shown until its last sample is."""

    def __init__(
        self,
        instances: ModelInstances,
        calls: Calls,
        resident_bytes: Callable[[], int],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` gives Unix seconds and never goes back."""
        self._instances = instances
        self._calls = calls
        self._resident_bytes = resident_bytes
        self._clock = clock or steady_clock()
        self._period = int(self._clock() // HISTORY_PERIOD_S)
        self._due_s = (self._period + 1) * HISTORY_PERIOD_S
        self._models: defaultdict[str, _ModelHistory] = defaultdict(_ModelHistory)
        self._known: WeakKeyDictionary[Engine[Any], Counts] = WeakKeyDictionary()

    def turn(self) -> bool:
        """Sample what is due; whether something was."""
        now_s = self._clock()
        if now_s < self._due_s:
            return False
        period = int(now_s // HISTORY_PERIOD_S)
        self._sample(period - self._period)
        self._period, self._due_s = period, (period + 1) * HISTORY_PERIOD_S
        return True

    def read(self) -> dict[str, Counter[Series]]:
        """What the engines of each model in memory hold now; what they have done is added up."""
        held: dict[str, Counter[Series]] = {}
        for instance in self._instances:
            model = instance.folder.name
            own, done = held.setdefault(model, Counter()), self._models[model].done
            for engine in instance.model.engines.values():
                now, before = engine.counts(), self._known.get(engine, Counts())
                own.update({name: getattr(now, name) for name in HELD})
                own["waiting"] += self._calls.num_preparing(engine)
                done.update(
                    {name: getattr(now, counter) - getattr(before, counter) for name, counter in DONE.items()}
                )
                self._known[engine] = now
        return held

    def totals(self, model: str) -> ModelTotals:
        """What the engines of a model have done until the last `read`."""
        done = self._models[model].done if model in self._models else Counter()
        return ModelTotals(
            prompt_tokens=done["prompt_tokens"],
            cached_tokens=done["prefix_hits"],
            output_tokens=done["output_tokens"],
            preemptions=done["preemptions"],
            draft_tokens=done["draft_tokens"],
            accepted_tokens=done["accepted_tokens"],
        )

    def of(self, model: str) -> History | None:
        """The samples of a model; None where there are none."""
        if model not in self._models or not self._models[model].series["running"]:
            return None
        series = {name: list(values) for name, values in self._models[model].series.items()}
        return History(self._period * HISTORY_PERIOD_S, HISTORY_PERIOD_S, series)

    def _sample(self, num_periods: int) -> None:
        held, resident_bytes = self.read(), self._resident_bytes()
        for name, model in list(self._models.items()):
            model.num_absent = 0 if name in held else model.num_absent + num_periods
            if model.num_absent >= HISTORY_SAMPLES:
                del self._models[name]
                continue
            now = held.get(name, Counter())
            now["resident_bytes"] = resident_bytes
            model.sample(now, num_periods)


def steady_clock() -> Callable[[], float]:
    """Unix seconds as they are now and go on, whatever is done to the machine's clock later."""
    ahead_s = time.time() - time.monotonic()
    return lambda: time.monotonic() + ahead_s
