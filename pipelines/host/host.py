"""The engine host's loop: reads the inbox, steps every engine that has work, sends the outputs to workers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pipelines.base.garbage_collection import release_free_pages
from pipelines.host.adapter_commands import AdapterCommands
from pipelines.host.adapters.registry import AdapterRegistry
from pipelines.host.host_view import HostView
from pipelines.host.inbox import HostInbox
from pipelines.host.intake import Completed, Requests
from pipelines.host.lifecycle.lifecycle import Lifecycle
from pipelines.host.metrics_publisher import Publisher
from pipelines.host.models.in_flight import Calls
from pipelines.host.models.instances import ModelInstances
from pipelines.host.models.loader import Loader, ModelSource
from pipelines.host.models.model import HostModel
from pipelines.host.models.residents import MemoryLimits
from pipelines.host.stepping import Stepping
from pipelines.host.worker_messages import HostFacts, LoopTimes, WorkerMessages
from pipelines.repository.snapshots import Snapshots
from pipelines.wire.listener import Disconnected, Listener, Peer
from pipelines.wire.messages import (
    FromTrainers,
    HostState,
    LeavePause,
    Pause,
    Resume,
    Sleep,
    Status,
    WakeUp,
)

if TYPE_CHECKING:
    from pipelines.host.trainer_commands import TrainerCommands

log = logging.getLogger("braid.host")

IDLE_S = 0.5
"""How long an idle turn waits for messages; the heartbeat is touched at least this often."""
QUIET_S = 0.005
"""After this time without messages metrics are written; earlier would delay the reader of a last result."""
HEARTBEAT_S = 0.2
"""The seconds between two heartbeats of a busy host: touching a file takes longer than planning a step."""
PREPARING_THREADS = 2
"""The threads that make what a call needs before it enters its engine: a guide, weights of an adapter."""
STOP_S = 1.0
"""How long the end of a host waits for a build in progress."""


@dataclass(frozen=True)
class DrainStarted:
    """Take no new calls; end when those in flight have."""


class Host:
    """Owns all engines; every method but `rescan` and `drain` belongs to the thread that calls `run`, and its
    state to the thread that holds the inbox's turn.
    """

    def __init__(
        self,
        source: ModelSource,
        listener: Listener,
        *,
        snapshots: Path | None = None,
        instances: ModelInstances | None = None,
        limits: MemoryLimits | None = None,
        heartbeat: Callable[[], None] = lambda: None,
        announce: Callable[[Status], None] = lambda status: None,
    ) -> None:
        """`heartbeat` is called at most every HEARTBEAT_S; `announce` once, when the first scan is done and a
        worker has connected.
        """
        self.inbox = HostInbox()
        self.state: HostState = "starting"
        self._listener = listener
        self._instances = instances or ModelInstances()
        self._snapshots = Snapshots(snapshots)
        self._registry = AdapterRegistry(changed=self._models_changed)
        self._preparing = ThreadPoolExecutor(PREPARING_THREADS, "preparing")
        self._loader = Loader(source, lambda event: self.inbox.put((None, event)), self._snapshots)
        self._heartbeat, self._heartbeat_s = heartbeat, 0.0
        self._cold: list[HostModel] = []  # what `warm` may still make faster
        self._loop_times = LoopTimes()
        self._calls = Calls()
        self._publisher = Publisher(self._instances, self._calls)
        self._lifecycle = Lifecycle(
            self._instances,
            self._loader,
            listener,
            limits or MemoryLimits(),
            self._models_changed,
            lambda: self._workers.num_statuses,
            self._cold.append,
        )
        self._requests = Requests(
            self._instances,
            self._calls,
            listener,
            self.inbox,
            self._publisher,
            self._preparing,
            self._registry,
        )
        self._trainers: TrainerCommands | None = None  # none until one asks
        self._workers = WorkerMessages(
            self._instances,
            self._registry,
            listener,
            self._lifecycle,
            self._loop_times,
            announce,
            self._facts,
        )
        self._view = HostView(self._instances, self._calls, listener, self._facts, self._busy)
        self._stepping = Stepping(self._calls, listener, self._publisher)
        self._readers = self._all_readers()
        self.inbox.handle_at_once(self._requests.short_readers, noted=frozenset({Completed}))

    def _all_readers(self) -> dict[type, Callable[[Peer, Any], None]]:
        """What handles each type of message, whichever part of the host that is."""
        commands = AdapterCommands(
            self._registry,
            self._instances,
            self.inbox,
            self._preparing,
            changed=self._lifecycle.adapters_changed,
            settle=self._lifecycle.settle,
        )
        return {
            **self._requests.readers,
            **self._lifecycle.readers,
            **commands.readers,
            **self._view.readers,
            **self._workers.readers,
            **dict.fromkeys((Pause, LeavePause, Resume, Sleep, WakeUp), self._of_trainers),
            Disconnected: self._disconnected,
            DrainStarted: self._drain,
        }

    def rescan(self) -> None:
        """Load what is new or changed in the repository.  From any thread or signal handler."""
        self._loader.rescan()

    def drain(self) -> None:
        """Refuse new calls, finish those in flight, then let `run` return.  From any thread or handler."""
        self.inbox.put((None, DrainStarted()))

    def run(self) -> None:
        """Serve until drained."""
        self._listener.open(self.inbox)
        self._loader.start()
        self._loader.rescan()
        while self.state != "draining" or self._calls:
            self.turn()
        self._publisher.publish(busy=False)
        self._loader.stop(STOP_S)
        self._preparing.shutdown(cancel_futures=True)
        self._listener.close()
        self._instances.close_all()
        self._snapshots.close()

    def turn(self) -> None:
        """Read all messages (idle: wait for one a moment), step each busy engine once, tidy up."""
        self._touch_heartbeat()
        had_messages = self._read_inbox()
        self._loop_times.mark("messages")
        for instance in self._instances:
            for engine in instance.model.stepped.values():
                if engine.has_work and not self._is_paused:
                    self._stepping.step(instance, engine)
            for threaded in instance.model.threaded.values():
                threaded.check_alive()
        self._loop_times.mark("steps")
        if self._may_warm():
            self._warm()
        self._loop_times.mark("warm")
        if had_messages and self._is_paused:
            self._publisher.note_change()  # no step does
        self._publisher.publish(busy=had_messages or self._busy() or len(self._calls) > 0)
        self._view.turn()
        if self._trainers is not None:
            self._trainers.turn()
        self._lifecycle.turn()
        if self.state == "starting" and self._lifecycle.is_settled:
            self._become_ready()
        self._loop_times.mark("numbers")

    def _touch_heartbeat(self) -> None:
        now_s = monotonic()
        if now_s - self._heartbeat_s >= HEARTBEAT_S:
            self._heartbeat_s = now_s
            self._heartbeat()

    def _read_inbox(self) -> bool:
        """Whether there was any, those included that were handled at once while it waited."""
        num_at_once = self.inbox.num_at_once
        if not (self._busy() or self._may_warm()):
            is_quiet = self._publisher.has_news and not self._calls
            self.inbox.wait(QUIET_S if is_quiet else IDLE_S, notes=not is_quiet)
        self._loop_times.mark("idle")
        had_messages = self.inbox.num_at_once > num_at_once
        while (item := self.inbox.take()) is not None:
            had_messages = True
            peer, message = item
            self._readers[type(message)](peer, message)
        return had_messages

    def _may_warm(self) -> bool:
        """Whether there is something to prepare and no request waits: threads of batches want all cores."""
        return bool(self._cold) and not self._calls and not self._busy()

    def _warm(self) -> None:
        """Prepare a model's later steps between requests, a little each turn."""
        held = {id(instance.model) for instance in self._instances}
        self._cold[:] = [model for model in self._cold if id(model) in held]
        if self._cold and not self._warms(self._cold[0]):
            del self._cold[0]
            release_free_pages()

    def _warms(self, model: HostModel) -> bool:
        """Whether there is more of it; a model that fails here may serve all the same."""
        try:
            return model.warm()
        except Exception:
            log.exception("a model could not be warmed")
            return False

    @property
    def _is_paused(self) -> bool:
        return self._trainers is not None and self._trainers.is_paused

    def _busy(self) -> bool:
        return not self._is_paused and any(
            engine.has_work for instance in self._instances for engine in instance.model.stepped.values()
        )

    # Messages of workers

    def _of_trainers(self, peer: Peer, message: FromTrainers | LeavePause) -> None:
        """What trainers ask for changes how other messages are read, from the first one on."""
        from pipelines.host.trainer_commands import TrainerCommands  # few servers need it

        self._trainers = TrainerCommands(
            self._instances,
            self._listener,
            self._requests,
            self._lifecycle,
            self._models_changed,
        )
        self._readers.update(self._trainers.readers)
        self._readers[type(message)](peer, message)

    def _disconnected(self, peer: Peer, message: Disconnected) -> None:
        self._workers.gone(peer)
        if self._trainers is not None:
            self._trainers.gone(peer)
        self._requests.gone(peer)
        self._lifecycle.gone(peer)

    def _drain(self, peer: Peer, event: DrainStarted) -> None:
        self.state = "draining"
        self._requests.refused = True
        if self._trainers is not None:
            self._trainers.go_on()
        log.info("draining: %d requests in flight", len(self._calls))
        self._workers.send_status()

    # Status

    def _become_ready(self) -> None:
        """The first scan is over, with all that it found."""
        self.state = "ready"
        self._workers.send_status()
        self._workers.announce_ready()

    def _models_changed(self) -> None:
        self._publisher.note_change()
        self._workers.send_status()

    def _facts(self) -> HostFacts:
        is_sleeping = self._trainers is not None and self._trainers.is_sleeping
        return HostFacts(self.state, self._is_paused, is_sleeping)
