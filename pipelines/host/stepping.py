"""Runs one step of an engine and sends its outputs: a frame for each worker, errors where the step failed."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any, cast

from pipelines.host.metrics_publisher import Publisher
from pipelines.host.models.in_flight import Calls, Key
from pipelines.host.models.instances import ModelInstance
from pipelines.host.outgoing import frames, refusal, update_of
from pipelines.inference.engine.interface.engine_contract import Engine, SteppedEngine
from pipelines.inference.engine.interface.outputs import Output
from pipelines.wire.listener import Listener, Peer
from pipelines.wire.messages import TokenUpdate

log = logging.getLogger("braid.host")


class Stepping:
    """Steps engines for the calls of a host.  Belongs to its main thread."""

    def __init__(self, calls: Calls, listener: Listener, publisher: Publisher) -> None:
        self._calls = calls
        self._listener = listener
        self._publisher = publisher

    def step(self, instance: ModelInstance, engine: SteppedEngine) -> None:
        """One step; each worker gets one frame, or more if prompts are scored.

        A step that raises fails its calls alone.
        """
        num_computed = engine.step_tokens
        try:
            outputs = engine.step()
        except Exception as error:
            log.exception("the engine of %s failed", instance.folder.name)
            self._fail(engine, error)
            return
        self._publisher.note_step(instance.folder.name, engine.step_tokens - num_computed)
        updates = self._updates(outputs)
        if updates:
            self._listener.send([(peer, frame) for peer, some in updates.items() for frame in frames(some)])
        engine.profile.after("send")

    def _updates(self, outputs: list[Output]) -> dict[Peer, list[TokenUpdate]]:
        """The updates for each worker; outputs of calls that were cancelled are dropped."""
        updates: dict[Peer, list[TokenUpdate]] = defaultdict(list)
        for output in outputs:
            key = cast(Key, output.key)
            call = self._calls.find(key)
            if call is not None:
                updates[key[0]].append(update_of(key[1], output))
                if output.piece.finish is not None:
                    self._calls.ended(key, call, output.choice)
        return updates

    def _fail(self, engine: Engine[Any], error: Exception) -> None:
        for key in self._calls.of_engine(engine):
            peer, request_id = key
            self._calls.abort(key)
            self._listener.send([(peer, refusal(request_id, error))])
        self._publisher.note_change()
