"""Pauses generation between two steps, and keeps a server that sleeps from loading: for trainers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.base.errors import unloaded_by_hand
from pipelines.host.intake import Requests
from pipelines.host.lifecycle.lifecycle import Lifecycle
from pipelines.host.models.instances import ModelInstances
from pipelines.wire.listener import Listener, Peer
from pipelines.wire.messages import (
    Followed,
    LeavePause,
    Pause,
    Resume,
    Sleep,
    UnloadModel,
    WakeUp,
    WantModel,
)


class TrainerCommands:
    """Belongs to the host's main thread.

    While it is paused no engine makes a step: requests enter their engines and wait there.  A pause that
    waits for the calls that run keeps later ones out of their engines until then, so that it ends.
    """

    def __init__(
        self,
        instances: ModelInstances,
        listener: Listener,
        requests: Requests,
        lifecycle: Lifecycle,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the server pauses, goes on, sleeps or wakes up."""
        self.is_paused = self.is_sleeping = False
        self._instances = instances
        self._listener = listener
        self._requests = requests
        self._settle = lifecycle.settle
        self._changed = changed
        self._others = {**requests.readers, **lifecycle.readers}
        self._pausing: list[tuple[Peer, Pause]] = []  # those that wait for calls to end
        self._begun_by: set[tuple[Peer, int]] = set()  # requests of the pause that holds now
        self._asleep: list[str] = []
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            Pause: self._pause,
            LeavePause: self._leave,
            Resume: self._resume,
            Sleep: self._sleep,
            WakeUp: self._wake_up,
            WantModel: self._want,
            UnloadModel: self._unload,
        }

    def turn(self) -> None:
        """Pause once the calls that are waited for have ended."""
        if self._pausing and not self._requests.generating():
            self._stop()

    def go_on(self) -> None:
        """Make steps again; a pause that has not begun is none any more."""
        self.is_paused = False
        self._begun_by.clear()
        self._answer_pauses()
        self._requests.let_in()
        self._changed()

    def gone(self, peer: Peer) -> None:
        """The worker died or disconnected: it waits for nothing."""
        self._pausing = [(asker, pause) for asker, pause in self._pausing if asker is not peer]
        self._go_on_if_unwanted()

    def _pause(self, peer: Peer, message: Pause) -> None:
        self._pausing.append((peer, message))
        if message.mode == "abort":
            for key in self._requests.generating():
                self._listener.send([(key[0], self._requests.cancelled(key))])
        if message.mode == "keep" or self.is_paused or not self._requests.generating():
            self._stop()
        else:
            self._requests.hold_back()

    def _leave(self, peer: Peer, message: LeavePause) -> None:
        """Undo the pause of a client that is gone without an answer, unless others have asked for one too."""
        asked = (peer, message.pause_id)
        self._pausing = [
            (asker, pause) for asker, pause in self._pausing if (asker, pause.request_id) != asked
        ]
        if self._begun_by == {asked}:
            self.go_on()
        self._begun_by.discard(asked)
        self._go_on_if_unwanted()

    def _go_on_if_unwanted(self) -> None:
        """Let in what was held back, where no client waits for a pause any more."""
        if not self._pausing and not self.is_paused:
            self._requests.let_in()

    def _stop(self) -> None:
        self._begun_by |= {(peer, pause.request_id) for peer, pause in self._pausing}
        self.is_paused = True
        if any(pause.clears_cache for _, pause in self._pausing):
            self._instances.reset_prefix_caches()
        self._changed()
        self._answer_pauses()
        self._requests.let_in()

    def _answer_pauses(self) -> None:
        answered, self._pausing = self._pausing, []
        self._listener.send([(peer, Followed(pause.request_id)) for peer, pause in answered])

    def _resume(self, peer: Peer, message: Resume) -> None:
        self.go_on()
        self._listener.send([(peer, Followed(message.request_id))])

    def _sleep(self, peer: Peer, message: Sleep) -> None:
        models = self._instances.statuses()
        loaded = {model.name for model in models if model.state in ("ready", "loading")}
        if not self.is_sleeping:
            self._asleep = []
        self.is_sleeping, self._asleep = True, sorted({*self._asleep, *loaded})
        self._changed()
        self._listener.send([(peer, Followed(message.request_id, sorted(loaded)))])

    def _wake_up(self, peer: Peer, message: WakeUp) -> None:
        """A model that was removed meanwhile is not in the reply; one that is not loaded after it, as where
        the client left, is in the next one.
        """
        self.is_sleeping = False
        states = {model.name: model.state for model in self._instances.statuses()}
        self._asleep = [name for name in self._asleep if states.get(name, "ready") != "ready"]
        self._changed()
        self._listener.send([(peer, Followed(message.request_id, list(self._asleep)))])

    def _unload(self, peer: Peer, message: UnloadModel) -> None:
        """A model that a client unloads while the server is awake stays unloaded."""
        if not self.is_sleeping and message.model in self._asleep:
            self._asleep.remove(message.model)
        self._others[UnloadModel](peer, message)

    def _want(self, peer: Peer, message: WantModel) -> None:
        if self.is_sleeping and not message.by_hand and self._instances.current(message.model) is None:
            self._settle((peer, message.request_id), unloaded_by_hand(message.model))
        else:
            self._others[WantModel](peer, message)
