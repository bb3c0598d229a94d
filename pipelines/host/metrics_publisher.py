"""Publishes the engines' counts as metrics, a few times a second."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pipelines.host.adapters.adapter_cache import AdapterPlaces
from pipelines.host.models.in_flight import Calls
from pipelines.host.models.instances import ModelInstances
from pipelines.inference.engine.batching.threaded_engine import ThreadedEngine
from pipelines.inference.engine.interface.engine_contract import Engine
from pipelines.telemetry import metric_files, metrics
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.metric_names import CacheShape, LoraLoad

PERIOD_S = 0.3
"""The seconds between two publications while engines are busy; when they become idle, one is immediate."""

MAX_LORA_LOADS = 1000
"""Different sets of adapters that metrics name: a set that was published once stays in the metrics."""


class Publisher:
    """Writes what changed since it last wrote.  Belongs to the thread that holds the turn."""

    def __init__(self, instances: ModelInstances, calls: Calls) -> None:
        self._instances = instances
        self._calls = calls
        self._changed_at_s: float | None = None
        self._published: WeakKeyDictionary[Engine[Any], Counts] = WeakKeyDictionary()
        self._profiles: WeakKeyDictionary[Engine[Any], dict[tuple[str, str], float]] = WeakKeyDictionary()
        self._caches: set[tuple[str, CacheShape]] = set()
        self._loras: dict[str, LoraLoad] = {}
        self._lora_loads: set[LoraLoad] = set()

    @property
    def has_news(self) -> bool:
        """Whether something changed that is not written yet."""
        return self._changed_at_s is not None

    def note_change(self) -> None:
        """An engine did something."""
        if self._changed_at_s is None:
            self._changed_at_s = time.monotonic()

    def note_step(self, model: str, num_tokens: int) -> None:
        """A step of an engine is over; one that failed computed no tokens."""
        self.note_change()
        if num_tokens:
            metrics.step(model, num_tokens)

    def publish(self, busy: bool) -> None:
        """Write, if something changed and, while `busy`, PERIOD_S ago."""
        metric_files.store_waiting()
        since_s = self._changed_at_s
        if since_s is None or (busy and time.monotonic() - since_s < PERIOD_S):
            return
        self._changed_at_s = None
        by_model: dict[str, list[Counts]] = defaultdict(list)
        for instance in self._instances:
            name = instance.folder.name
            by_model[name] += [self._progress(name, engine) for engine in instance.model.engines.values()]
            for engine in instance.model.threaded.values():
                self._publish_runs(name, engine)
            for places in instance.adapters.values():
                self._publish_adapters(name, places)
        for name, counts in by_model.items():
            metrics.engine_load(name, counts)
            metrics.write_steps(name)
        self._publish_caches(by_model)

    def _publish_adapters(self, name: str, places: AdapterPlaces) -> None:
        """Which adapters run and wait, where others did before."""
        now = LoraLoad(places.max_loaded, ",".join(places.waiting), ",".join(places.running))
        if len(self._lora_loads) >= MAX_LORA_LOADS and now not in self._lora_loads:
            now = LoraLoad(places.max_loaded, "...", "...")
        if now != (before := self._loras.get(name)):
            self._lora_loads.add(now)
            metrics.adapters(name, now, before)
            self._loras[name] = now

    def _publish_caches(self, by_model: Mapping[str, list[Counts]]) -> None:
        """Publish the caches that exist now; a cache disappears with its model instance."""
        now = {
            (name, _shape(counts))
            for name, engines in by_model.items()
            for counts in engines
            if counts.blocks_total
        }
        for name, shape in self._caches ^ now:
            metrics.cache_shape(name, shape, (name, shape) in now)
        self._caches = now

    def _progress(self, model: str, engine: Engine[Any]) -> Counts:
        now = copy.copy(engine.counts())
        now.waiting += self._calls.num_preparing(engine)
        metrics.engine_progress(model, now, self._published.get(engine))
        self._published[engine] = now
        self._publish_steps(model, engine)
        return now

    def _publish_runs(self, model: str, engine: ThreadedEngine[Any]) -> None:
        """The runs that ended since the last publication."""
        if self._published[engine].running:  # its end is published even when no request waits for it any more
            self.note_change()
        while engine.finished_batches:
            ran = engine.finished_batches.popleft()
            if ran.num_tokens:
                metrics.step(model, ran.num_tokens)
            metrics.texts_ran(model, ran.waits, ran.took_s)

    def _publish_steps(self, model: str, engine: Engine[Any]) -> None:
        """How many steps there were, and what their phases took."""
        known = self._profiles.setdefault(engine, defaultdict(float))
        for kind, totals in list(engine.profile.totals.items()):
            metrics.steps(model, kind, totals.steps - int(known[kind, ""]))
            known[kind, ""] = totals.steps
            for phase, seconds in list(totals.seconds.items()):
                metrics.step_time(model, kind, phase, seconds - known[kind, phase])
                known[kind, phase] = seconds


def _shape(counts: Counts) -> CacheShape:
    return CacheShape(
        counts.block_tokens, counts.blocks_total, counts.host_blocks_total, counts.reuses_prefixes
    )
