"""What the engine host does: read the inbox, step every engine that has work, send what came out.

Knows requests by peer and number; knows nothing of text, HTTP, sampling, signals or processes.
"""

from __future__ import annotations

import gc
import logging
import os
import queue
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipelines.errors import BraidError, EngineError, Unavailable
from pipelines.host import loading
from pipelines.host.loads import HostModel, Load, Loads
from pipelines.host.publishing import Publisher
from pipelines.wire.gate import Gate, Gone, Inbox, Peer
from pipelines.wire.messages import (
    Abort,
    Frame,
    Hello,
    HostState,
    Infer,
    Inferred,
    Status,
    Submit,
    TokenUpdate,
)
from pipelines.wire.tensors import pack, unpack

if TYPE_CHECKING:
    from pipelines.engine.loop import Engine
    from pipelines.engine.outputs import Output
    from pipelines.nodes.tensor_engine import Answer, TensorEngine
    from pipelines.sampling.guide import GuideMaker

log = logging.getLogger("braid.host")

IDLE_S = 0.5
"""How long an idle turn waits for mail; the heartbeat is touched at least so often."""
PREPARING_THREADS = 2
STOP_S = 1.0
"""How long the end of a host waits for a build in progress."""

Key = tuple[Peer, int]
"""A call: the connection it came by and its number there."""


@dataclass(frozen=True)
class Call:
    """A request in flight.  `open` holds the choices that have not ended."""

    load: Load
    engine: Engine | TensorEngine
    open: set[int]


@dataclass(frozen=True)
class Drain:
    """Take no new calls; end when those in flight have."""


@dataclass(frozen=True)
class Answered:
    """A tensor engine ended a run; `message` is for the worker that asked."""

    key: Key
    message: Inferred


@dataclass(frozen=True)
class Prepared:
    """The guide of a call is made, or why it cannot be."""

    key: Key
    message: Submit
    guide: GuideMaker | Exception | None


class Host:
    """Owns all engines; every method but `rescan` and `drain` belongs to the thread that calls `run`.

    Invariants: a call is in `_calls` exactly while one of its choices may still give an Output;
    `load.num_calls` is the number of its entries there.
    """

    def __init__(
        self,
        models_dir: Path,
        gate: Gate,
        *,
        scan: loading.Scan,
        build: loading.Build,
        loads: Loads | None = None,
        beat: Callable[[], None] = lambda: None,
        announce: Callable[[Status], None] = lambda status: None,
    ) -> None:
        """`beat` is called every turn; `announce` once, when all models settled and a worker is there."""
        self.inbox: Inbox = queue.SimpleQueue()
        self.state: HostState = "starting"
        self._gate = gate
        self._loads = loads or Loads()
        self._loader = loading.Loader(models_dir, scan, build, lambda event: self.inbox.put((None, event)))
        self._beat = beat
        self._announce: Callable[[Status], None] | None = announce
        self._peers: set[Peer] = set()
        self._cold: list[HostModel] = []  # what `warm` may still make faster
        self._calls: dict[Key, Call] = {}
        self._preparing = ThreadPoolExecutor(PREPARING_THREADS, "guides")
        self._publisher = Publisher(self._loads)
        self._readers: dict[type, Callable[[Peer, Any], None]] = {
            Hello: self._hello,
            Submit: self._submit,
            Infer: self._infer,
            Answered: self._answered,
            Prepared: self._prepared,
            Abort: self._abort,
            Gone: self._gone,
            Drain: self._drain,
            loading.Loading: self._loading,
            loading.Loaded: self._loaded,
            loading.LoadFailed: self._load_failed,
            loading.Removed: self._removed,
            loading.Scanned: self._scanned,
        }

    def rescan(self) -> None:
        """Load what is new or changed in the repository.  From any thread or signal handler."""
        self._loader.rescan()

    def drain(self) -> None:
        """Refuse new calls, finish those in flight, then let `run` return.  From any thread or handler."""
        self.inbox.put((None, Drain()))

    def run(self) -> None:
        """Serve until drained."""
        self._gate.open(self.inbox)
        self._loader.start()
        self._loader.rescan()
        while self.state != "draining" or self._calls:
            self.turn()
        self._loader.stop(STOP_S)
        self._preparing.shutdown(cancel_futures=True)  # nobody waits for what is left
        self._gate.close()
        self._loads.close_all()

    def turn(self) -> None:
        """Read all mail (idle: wait for it a moment), step each busy engine once, tidy up."""
        self._beat()
        self._read_mail()
        for load in self._loads:
            for engine in load.model.engines.values():
                if engine.has_work:
                    self._step(load, engine)
        if not self._busy():
            self._warm()
        self._publisher.publish(busy=self._busy())
        if self._loads.close_idle():
            self._tell_status()

    def _read_mail(self) -> None:
        try:
            peer, message = self.inbox.get(block=not (self._busy() or self._cold), timeout=IDLE_S)
            while True:
                self._readers[type(message)](peer, message)
                peer, message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _warm(self) -> None:
        """Between requests, prepare a model's later steps, a little each turn."""
        held = {id(load.model) for load in self._loads}
        self._cold = [model for model in self._cold if id(model) in held]
        if self._cold and not self._cold[0].warm():
            del self._cold[0]

    def _busy(self) -> bool:
        return any(engine.has_work for load in self._loads for engine in load.model.engines.values())

    # What workers ask

    def _hello(self, peer: Peer, message: Hello) -> None:
        self._peers.add(peer)
        self._gate.post([(peer, self._status())])
        self._greet()

    def _submit(self, peer: Peer, message: Submit) -> None:
        """What is restricted enters its engine when its guide is made; it counts as a call before."""
        key = (peer, message.request_id)
        choices = set(range(len(message.prompts) * message.n))
        try:
            load = self._take(message)
            call = Call(load, load.model.engines[message.node], choices)
            if message.params.guide is None:
                _enter(call, key, message)
        except Exception as error:
            self._gate.post([(peer, Frame([_error_update(message.request_id, error)]))])
            return
        self._begin(key, call)
        if message.params.guide is not None:
            self._preparing.submit(self._prepare, load.model, key, message)

    def _prepare(self, model: HostModel, key: Key, message: Submit) -> None:
        """In a thread of its own: a grammar may take long to compile."""
        try:
            guide = model.guide_maker(message.node, message.params)
        except Exception as error:
            self.inbox.put((None, Prepared(key, message, error)))
        else:
            self.inbox.put((None, Prepared(key, message, guide)))

    def _prepared(self, peer: Peer, event: Prepared) -> None:
        """An aborted call is no longer there; of another, single choices may have been."""
        call, (asker, request_id) = self._calls.get(event.key), event.key
        if call is None:
            return
        try:
            if isinstance(event.guide, Exception):
                raise event.guide
            _enter(call, event.key, event.message, event.guide)
        except Exception as error:
            self._gate.post([(asker, Frame([_error_update(request_id, error)]))])
            call.open.clear()
            self._forget_ended(event.key, call)

    def _infer(self, peer: Peer, message: Infer) -> None:
        key = (peer, message.request_id)
        try:
            load = self._take(message)
            engine = load.model.engines[message.node]
            engine.submit(key, unpack(message.inputs), message.outputs, self._tell_answer)
        except Exception as error:
            self._gate.post([(peer, _inferred(message.request_id, error))])
            return
        self._begin(key, Call(load, engine, {0}))
        self._publisher.note_change()

    def _tell_answer(self, key: Hashable, answer: Answer) -> None:
        """From a tensor engine's thread, which also copies the arrays into the message."""
        asked = cast(Key, key)
        self.inbox.put((None, Answered(asked, _inferred(asked[1], answer))))

    def _answered(self, peer: Peer, event: Answered) -> None:
        """An aborted call is no longer there, and nobody waits for its answer."""
        call = self._calls.get(event.key)
        if call is not None:
            self._gate.post([(event.key[0], event.message)])
            call.open.clear()
            self._forget_ended(event.key, call)
        self._publisher.note_change()

    def _begin(self, key: Key, call: Call) -> None:
        self._calls[key] = call
        call.load.num_calls += 1

    def _take(self, message: Submit | Infer) -> Load:
        if self.state == "draining":
            raise Unavailable("the server is shutting down")
        return self._loads.find(message.model, message.load)

    def _abort(self, peer: Peer, message: Abort) -> None:
        key = (peer, message.request_id)
        call = self._calls.get(key)
        if call is None:
            return
        if message.choice < 0:
            call.engine.abort(key)
            call.open.clear()
        elif message.choice in call.open:
            call.engine.abort(key, message.choice)
            call.open.discard(message.choice)
        self._forget_ended(key, call)
        self._publisher.note_change()

    def _gone(self, peer: Peer, message: Gone) -> None:
        """The worker died or hung up: nobody waits for its calls."""
        self._peers.discard(peer)
        orphans = [request_id for other, request_id in self._calls if other is peer]
        if orphans:
            log.warning("a worker is gone: %d of its requests are aborted", len(orphans))
        for request_id in orphans:
            self._abort(peer, Abort(request_id))

    # What the loader tells

    def _loading(self, peer: Peer, event: loading.Loading) -> None:
        self._loads.loading(event.folder)
        self._tell_status()

    def _loaded(self, peer: Peer, event: loading.Loaded) -> None:
        self._loads.loaded(event.folder, event.model)
        self._cold.append(event.model)
        name, model = event.folder.name, event.model
        log.info(
            "loaded %s version %s in %.1f s: context %d tokens, cache %d tokens (%d bytes)",
            *(name, event.folder.version, event.seconds),
            *(model.max_context, model.cache_tokens, model.cache_bytes),
        )
        gc.freeze()  # a model's objects live long: collections of the oldest need not visit them
        self._publisher.note_change()
        self._tell_status()

    def _load_failed(self, peer: Peer, event: loading.LoadFailed) -> None:
        self._loads.failed(event.folder, event.problems)
        for problem in event.problems:
            log.error("%s version %s: %s", event.folder.name, event.folder.version, problem)
        self._tell_status()

    def _removed(self, peer: Peer, event: loading.Removed) -> None:
        self._loads.removed(event.name)
        self._tell_status()

    def _scanned(self, peer: Peer, event: loading.Scanned) -> None:
        if self.state == "starting":
            self.state = "ready"
            self._tell_status()
            self._greet()

    def _drain(self, peer: Peer, event: Drain) -> None:
        self.state = "draining"
        log.info("draining: %d requests in flight", len(self._calls))
        self._tell_status()

    # One step and what follows

    def _step(self, load: Load, engine: Engine | TensorEngine) -> None:
        """One step of one engine; each worker gets one frame, or more if prompts are scored.

        A step that raises fails its calls alone.
        """
        try:
            outputs = engine.step()
        except Exception as error:
            log.exception("the engine of %s failed", load.folder.name)
            self._fail_calls(engine, error)
            return
        self._publisher.note_change()
        updates: dict[Peer, list[TokenUpdate]] = defaultdict(list)
        for output in outputs:
            self._collect(output, updates)
        if updates:
            self._gate.post([(peer, frame) for peer, some in updates.items() for frame in _frames(some)])

    def _collect(self, output: Output, updates: dict[Peer, list[TokenUpdate]]) -> None:
        key = cast(Key, output.key)
        call = self._calls.get(key)
        if call is None:
            return
        peer, request_id = key
        updates[peer].append(_update(request_id, output))
        if output.finish is not None:
            call.open.discard(output.choice)
            self._forget_ended(key, call)

    def _fail_calls(self, engine: Engine | TensorEngine, error: Exception) -> None:
        for key, call in list(self._calls.items()):
            if call.engine is engine:
                peer, request_id = key
                self._gate.post([(peer, Frame([_error_update(request_id, error)]))])
                self._abort(peer, Abort(request_id))

    def _forget_ended(self, key: Key, call: Call) -> None:
        if not call.open and self._calls.pop(key, None) is not None:
            call.load.num_calls -= 1

    # Status and numbers

    def _status(self) -> Status:
        return Status(os.getpid(), self.state, self._loads.statuses())

    def _tell_status(self) -> None:
        status = self._status()
        self._gate.post([(peer, status) for peer in self._peers])

    def _greet(self) -> None:
        if self._announce is not None and self._peers and self.state == "ready":
            announce, self._announce = self._announce, None
            announce(self._status())


def _enter(call: Call, key: Key, message: Submit, guide: GuideMaker | None = None) -> None:
    """Into the engine, without the choices that nobody waits for any more."""
    guided = {} if guide is None else {"guide": guide}
    call.engine.submit(
        key, message.prompts, message.params, n=message.n, cache_salt=message.cache_salt, **guided
    )
    for choice in set(range(len(message.prompts) * message.n)) - call.open:
        call.engine.abort(key, choice)


def _frames(updates: list[TokenUpdate]) -> list[Frame]:
    """One frame, but what tells of a prompt is long and goes by itself."""
    short = [update for update in updates if not update.prompt_logprobs]
    frames = [Frame([update]) for update in updates if update.prompt_logprobs]
    return [*frames, Frame(short)] if short else frames


def _update(request_id: int, output: Output) -> TokenUpdate:
    return TokenUpdate(
        request_id,
        output.choice,
        output.token_ids,
        output.logprobs,
        output.finish,
        output.stop_token_id,
        output.error,
        output.num_cached,
        error_status=output.error_status,
        prompt_logprobs=output.prompt_logprobs or [],
    )


def _error_update(request_id: int, error: Exception) -> TokenUpdate:
    told = _told(error)
    return TokenUpdate(
        request_id,
        0,
        [],
        finish="error",
        error=told.message,
        error_status=told.status,
        error_field=told.field,
    )


def _inferred(request_id: int, answer: Answer) -> Inferred:
    """The message for an answer; an error too when the outputs are more than the wire carries."""
    try:
        if isinstance(answer, Exception):
            raise answer
        return Inferred(request_id, pack("outputs", answer))
    except Exception as error:
        told = _told(error)
        return Inferred(request_id, [], told.message, told.status, told.field)


def _told(error: Exception) -> BraidError:
    """What the client is told.  What is not a BraidError is our fault: logged, and not shown."""
    if isinstance(error, BraidError):
        return error
    log.error("a request failed", exc_info=error)
    return EngineError("the engine failed on this request; see the server's log")
