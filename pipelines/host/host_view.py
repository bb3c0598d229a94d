"""What the host shows of itself to those who watch it, from one snapshot a second."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import psutil
from msgspec.structs import replace

from pipelines.host.histories import Histories
from pipelines.host.models.in_flight import Calls, InFlightCall, Key
from pipelines.host.models.instances import ModelInstance, ModelInstances
from pipelines.host.recent_phases import RecentPhases
from pipelines.host.worker_messages import HostFacts
from pipelines.inference.engine.interface.engine_contract import Identity
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.last_requests import LastRequests
from pipelines.wire.engine_view import (
    MAX_SEQUENCES,
    BlockCounts,
    HostProcess,
    ModelLoad,
    NodeView,
    SequenceView,
)
from pipelines.wire.listener import Listener, Peer
from pipelines.wire.messages import Inspect, Inspected, ReportRequests

REUSE_S = 0.9
"""While steps are made, a snapshot answers all who ask within this time; a worker asks once a second."""


class HostView:
    """Belongs to the host's main thread; between two steps it takes about a millisecond of it."""

    def __init__(
        self,
        instances: ModelInstances,
        calls: Calls,
        listener: Listener,
        facts: Callable[[], HostFacts],
        is_busy: Callable[[], bool],
    ) -> None:
        """While the host `is_busy` with steps, a snapshot is used again; else one delays nothing."""
        self._instances = instances
        self._calls = calls
        self._listener = listener
        self._facts = facts
        self._is_busy = is_busy
        self._process = psutil.Process()
        self._started_s = self._process.create_time()
        self._histories = Histories(instances, calls, lambda: self._process.memory_info().rss)
        self._phases = RecentPhases()
        self._last = LastRequests()
        self._snapshots: dict[str, tuple[float, Inspected]] = {}  # by model, and when it was taken
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            Inspect: self._inspect,
            ReportRequests: self._report,
        }

    def turn(self) -> None:
        """Sample what is due, once a second."""
        if self._histories.turn():
            engines = (engine for one in self._instances for engine in one.model.engines.values())
            self._phases.sample(engines, time.monotonic())

    def _report(self, peer: Peer, message: ReportRequests) -> None:
        self._last.add(message.requests, message.errors)

    def _inspect(self, peer: Peer, message: Inspect) -> None:
        now_s, recent = time.monotonic(), self._snapshots
        for model in [model for model, (taken_s, _) in recent.items() if now_s - taken_s > REUSE_S]:
            del recent[model]
        if message.model not in recent or not self._is_busy():
            recent[message.model] = now_s, self._snapshot(message.model)
        self._listener.send([(peer, replace(recent[message.model][1], request_id=message.request_id))])

    def _snapshot(self, model: str) -> Inspected:
        loads = self._loads()
        instances = [instance for instance in self._instances if instance.folder.name == model]
        nodes = [node for instance in reversed(instances) for node in self._nodes(instance)]
        return Inspected(
            0,
            self._facts().state,
            self._own_process(),
            loads,
            nodes,
            self._histories.totals(model),
            self._histories.of(model),
            requests=self._last.requests,
            errors=self._last.errors,
        )

    def _own_process(self) -> HostProcess:
        resident_bytes = self._process.memory_info().rss
        return HostProcess(self._process.pid, self._started_s, resident_bytes, time.process_time())

    def _loads(self) -> list[ModelLoad]:
        """The load of each name that is in memory: its instances together."""
        num_bytes: Counter[str] = Counter()
        for instance in self._instances:
            num_bytes[instance.folder.name] += instance.num_bytes
        return [
            ModelLoad(name, held["running"], held["waiting"], num_bytes[name])
            for name, held in self._histories.read().items()
        ]

    def _nodes(self, instance: ModelInstance) -> Iterator[NodeView]:
        now_s = time.monotonic()
        for node, engine in instance.model.engines.items():
            counts, view = engine.counts(), engine.view(self._identity)
            preparing = [_not_entered(call) for call in self._calls.preparing(engine)]
            yield NodeView(
                node,
                view.kind,
                instance.instance_id,
                counts.running,
                counts.waiting + len(preparing),
                counts.swapped,
                [*view.sequences, *preparing][:MAX_SEQUENCES],
                _blocks(counts),
                view.block_map,
                self._phases.of(engine, now_s),
                instance.model.opened(node),
            )

    def _identity(self, key: Hashable) -> Identity:
        call = self._calls.find(cast(Key, key))
        return Identity() if call is None else call.identity


def _not_entered(call: InFlightCall) -> SequenceView:
    """A call that is prepared for its engine: all its prompts together."""
    identity = call.identity
    return SequenceView(
        name=identity.name,
        choice=0,
        state="waiting",
        prompt_tokens=call.prompt_tokens,
        prompt_done=0,
        cached_tokens=0,
        output_tokens=0,
        max_tokens=call.max_tokens,
        blocks=0,
        age_s=identity.age_s,
        adapter=identity.adapter,
        tenant=identity.tenant,
    )


def _blocks(counts: Counts) -> BlockCounts | None:
    total, used, reusable = counts.blocks_total, counts.blocks_used, counts.blocks_reusable
    if not total:
        return None
    return BlockCounts(total, used, reusable, total - used - reusable, counts.block_tokens)
