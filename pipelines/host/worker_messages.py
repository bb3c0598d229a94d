"""What workers and a host say to each other beside requests: versions, what is served, profiles."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from msgspec.structs import replace

from pipelines.base.errors import BraidError
from pipelines.host.adapters.registry import AdapterRegistry
from pipelines.host.lifecycle.lifecycle import Lifecycle
from pipelines.host.models.instances import ModelInstances
from pipelines.wire.listener import Listener, Peer
from pipelines.wire.messages import (
    SCHEMA,
    Hello,
    HostState,
    InUse,
    PrefixCacheReset,
    Profile,
    Profiled,
    ResetPrefixCache,
    Status,
    Welcome,
)

log = logging.getLogger("braid.host")


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


class HostFacts(NamedTuple):
    """What a status says of the host itself."""

    state: HostState
    is_paused: bool
    is_sleeping: bool


class WorkerMessages:
    """Knows the workers of this version.  Belongs to the thread that holds the turn."""

    def __init__(
        self,
        instances: ModelInstances,
        registry: AdapterRegistry,
        listener: Listener,
        lifecycle: Lifecycle,
        loop_times: LoopTimes,
        announce: Callable[[Status], None],
        facts: Callable[[], HostFacts],
    ) -> None:
        """`announce` is called once, when the host is ready and a worker has connected."""
        self.num_statuses = 0
        self._instances = instances
        self._registry = registry
        self._listener = listener
        self._lifecycle = lifecycle
        self._loop_times = loop_times
        self._announce: Callable[[Status], None] | None = announce
        self._facts = facts
        self._peers: set[Peer] = set()
        self._refused: set[int] = set()  # pids of workers of another version
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            Hello: self._hello,
            InUse: self._in_use,
            Profile: self._profile,
            ResetPrefixCache: self._reset_prefix_cache,
        }

    def send_status(self) -> None:
        """Tell every worker what is served, and how the host is."""
        self.num_statuses += 1
        status = self._status()
        self._listener.send([(peer, status) for peer in self._peers])

    def announce_ready(self) -> None:
        """Announce the host, where it is ready and was not announced."""
        if self._announce is not None and self._peers and self._facts().state == "ready":
            announce, self._announce = self._announce, None
            announce(self._status())

    def gone(self, peer: Peer) -> None:
        """The worker died or disconnected."""
        self._peers.discard(peer)
        self._instances.disconnected(peer)

    def _hello(self, peer: Peer, message: Hello) -> None:
        """A worker of another version learns that it is one, and nothing else."""
        self._listener.send([(peer, Welcome(os.getpid(), SCHEMA))])
        if message.schema != SCHEMA:
            self._refuse(message)
            return
        self._peers.add(peer)
        self._listener.send([(peer, self._status())])
        self.announce_ready()

    def _refuse(self, message: Hello) -> None:
        if message.worker_pid not in self._refused:
            self._refused.add(message.worker_pid)
            log.error(
                "a worker (pid: %d) runs another version of Braid (message schema %s, here %s)",
                message.worker_pid,
                message.schema,
                SCHEMA,
            )

    def _in_use(self, peer: Peer, message: InUse) -> None:
        self._instances.in_use(peer, message.instance_ids)
        self._lifecycle.followed(peer, message.status)

    def _profile(self, peer: Peer, message: Profile) -> None:
        self._listener.send([(peer, profiled(self._instances, self._loop_times, message))])

    def _reset_prefix_cache(self, peer: Peer, message: ResetPrefixCache) -> None:
        self._instances.reset_prefix_caches()
        self._listener.send([(peer, PrefixCacheReset(message.request_id))])

    def _status(self) -> Status:
        models = self._instances.statuses()
        adapters = self._registry.statuses([model.name for model in models])
        models = [replace(model, adapters=adapters.get(model.name, [])) for model in models]
        facts = self._facts()
        return Status(
            os.getpid(),
            facts.state,
            models,
            number=self.num_statuses,
            is_paused=facts.is_paused,
            is_sleeping=facts.is_sleeping,
        )


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
