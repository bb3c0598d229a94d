"""Takes the requests of workers: generation, tensors, and the cancelling of both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE
from pipelines.base.errors import EngineError, RequestError, Unavailable
from pipelines.host.adapter_calls import AdapterCalls
from pipelines.host.adapters.registry import AdapterRegistry
from pipelines.host.metrics_publisher import Publisher
from pipelines.host.models.in_flight import Calls, InFlightCall, Key
from pipelines.host.models.instances import ModelInstance, ModelInstances
from pipelines.host.models.model import HostModel
from pipelines.host.outgoing import inferred, refusal, update_of
from pipelines.inference.contracts.guide import GuideMaker
from pipelines.inference.engine.interface.engine_contract import (
    EngineKind,
    GenerationRequest,
    Result,
    SteppedEngine,
    TensorRequest,
)
from pipelines.inference.engine.interface.outputs import aborted_output
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.wire.address import EngineAddress
from pipelines.wire.listener import Inbox, Listener, Peer
from pipelines.wire.messages import Abort, Cancelled, CancelRequest, Frame, Inferred
from pipelines.wire.requests import ImageEmbeds, Submit, SubmitTensors
from pipelines.wire.tensor_codec import unpack

log = logging.getLogger("braid.host")


@dataclass(frozen=True)
class Completed:
    """An engine with a thread of its own has the result of a request; None where its answer was sent."""

    key: Key
    result: Result | None = None


@dataclass(frozen=True)
class Prepared:
    """The guide of a call is made; an error where it cannot be."""

    key: Key
    message: Submit
    guide: GuideMaker | Exception | None


class Requests:
    """Starts calls, and ends those that were cancelled.  Belongs to the thread that holds the turn.

    What other threads have done comes back through `inbox`.  `short_readers` take what engines with threads
    of their own need: no step of the main thread follows from it.
    """

    def __init__(
        self,
        instances: ModelInstances,
        calls: Calls,
        listener: Listener,
        inbox: Inbox,
        publisher: Publisher,
        threads: ThreadPoolExecutor,
        registry: AdapterRegistry,
    ) -> None:
        self.refused = False  # whether new requests are
        self._instances = instances
        self._calls = calls
        self._listener = listener
        self._inbox = inbox
        self._publisher = publisher
        self._preparing = threads
        self._registry = registry
        self._holds_back = False
        self._held_back: dict[Key, Callable[[], None]] = {}  # by call, what begins it
        # calls that wait for their adapter, and what follows
        self._coming: dict[Key, Callable[[], None]] = {}
        self._adapters = AdapterCalls(
            registry, instances, inbox, threads, enter=self._adapter_is_there, refuse=self._refuse
        )
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            Submit: self._submit,
            SubmitTensors: self._infer,
            Abort: self._abort,
            CancelRequest: self._cancel,
            Completed: self._completed,
            Prepared: self._prepared,
            **self._adapters.readers,
        }
        self.short_readers: dict[type, Callable[[Peer, Any], None]] = {
            kind: self.readers[kind] for kind in (SubmitTensors, Completed)
        }

    def gone(self, peer: Peer) -> None:
        """The worker died or disconnected: its calls are cancelled."""
        orphans = self._calls.of_peer(peer)
        if orphans:
            log.warning("a worker is gone: %d of its requests are cancelled", len(orphans))
        for key in orphans:
            self._calls.abort(key)
        self._publisher.note_change()

    def hold_back(self) -> None:
        """Have later requests wait as calls in flight, before they enter their engines, until `let_in`."""
        self._holds_back = True

    def let_in(self) -> None:
        """Begin what was held back."""
        self._holds_back = False
        for begin in list(self._held_back.values()):
            begin()
        self._held_back.clear()

    def _submit(self, peer: Peer, message: Submit) -> None:
        """A request is a call from now on: it enters its engine when its guide and its adapter are there."""
        key, waits = (peer, message.request_id), self._holds_back or message.request.params.guide is not None
        try:
            call = self._call(key, message)
            if not waits and call.adapter is None:
                call.enter(key, self._generation(key, message, call))
        except Exception as error:
            self._listener.send([(peer, refusal(message.request_id, error))])
            return
        self._calls.start(key, call)
        if self._holds_back:
            self._held_back[key] = partial(self._begin, call, key, message)
            call.when_ended(lambda: self._held_back.pop(key, None))
        elif not call.has_entered:
            self._begin(call, key, message)
        if not call.has_entered:
            self._publisher.note_change()

    def _begin(self, call: InFlightCall, key: Key, message: Submit) -> None:
        """Have a call enter its engine as soon as what it needs is there."""
        if message.request.params.guide is not None:
            self._preparing.submit(self._prepare, call.instance.model, key, message)
        elif call.adapter is not None:
            self._wait_for_adapter(key, call, partial(self._enter, call, key, message))
        else:
            self._enter(call, key, message)

    def _call(self, key: Key, message: Submit | SubmitTensors) -> InFlightCall:
        """The call of a request, with the adapter that it names.  Raises BraidError."""
        instance, node = self._take(message.address), message.address.node
        choices = {0, *range(message.num_choices)}
        call = InFlightCall(instance, instance.model.engines[node], node, choices, origin=message.origin)
        if isinstance(message, Submit):
            call.prompt_tokens = sum(map(len, message.request.prompts))
            call.max_tokens = message.request.params.max_tokens
        else:
            call.holds = message.hold
        if message.adapter and node in instance.adapters:
            call.adapter = self._registry.current(instance.folder.name, message.adapter)
            call.when_ended(partial(self._leave_adapter, key, instance, node))
        return call

    def _prepare(self, model: HostModel, key: Key, message: Submit) -> None:
        """Make the guides of a call; runs in a thread of its own: a grammar may take long to compile."""
        try:
            guide = model.guide_maker(message.address.node, message.request.params)
        except Exception as error:
            self._inbox.put((None, Prepared(key, message, error)))
        else:
            self._inbox.put((None, Prepared(key, message, guide)))

    def _prepared(self, peer: Peer, event: Prepared) -> None:
        """A cancelled call is not in `_calls` any more."""
        call = self._calls.find(event.key)
        if call is None:
            return
        if isinstance(event.guide, Exception):
            self._refuse(event.key, event.guide)
        elif call.adapter is not None:
            enter = partial(self._enter, call, event.key, event.message, event.guide)
            self._wait_for_adapter(event.key, call, enter)
        else:
            self._enter(call, event.key, event.message, event.guide)

    def _wait_for_adapter(self, key: Key, call: InFlightCall, enter: Callable[[], None]) -> None:
        """Have a call with an adapter `enter` its engine when that is in memory."""
        assert call.adapter is not None
        self._coming[key] = enter
        self._adapters.ask(key, call.instance, call.node, call.adapter)

    def _adapter_is_there(self, key: Key) -> None:
        enter = self._coming.pop(key)
        if self._calls.find(key) is not None:
            enter()

    def _leave_adapter(self, key: Key, instance: ModelInstance, node: str) -> None:
        self._coming.pop(key, None)
        self._adapters.leave(key, instance, node)

    def _enter(self, call: InFlightCall, key: Key, message: Submit, guide: GuideMaker | None = None) -> None:
        """Submit a call that is prepared, without the choices that were cancelled meanwhile."""
        try:
            call.enter(key, self._generation(key, message, call, guide))
            for choice in set(range(message.num_choices)) - call.open:
                call.engine.cancel(key, choice)
        except Exception as error:
            self._refuse(key, error)

    def _refuse(self, key: Key, error: Exception) -> None:
        """End a call that did not enter its engine."""
        call, (peer, request_id) = self._calls.find(key), key
        if call is not None:
            self._calls.ended(key, call)
            is_stepped = call.engine.kind is EngineKind.STEPPED
            reply = refusal(request_id, error) if is_stepped else inferred(request_id, error)
            self._listener.send([(peer, reply)])

    def _infer(self, peer: Peer, message: SubmitTensors) -> None:
        key = (peer, message.request_id)
        try:
            call = self._call(key, message)
            request = self._tensors(key, message, call)
            if call.adapter is None:
                call.enter(key, request)
        except Exception as error:
            self._listener.send([(peer, inferred(message.request_id, error))])
            return
        self._calls.start(key, call)
        if call.adapter is not None:
            self._wait_for_adapter(key, call, partial(self._enter_tensors, call, key, request))
        self._publisher.note_change()

    def _enter_tensors(self, call: InFlightCall, key: Key, request: TensorRequest) -> None:
        try:
            call.enter(key, request)
        except Exception as error:
            self._refuse(key, error)

    def _tensors(self, key: Key, message: SubmitTensors, call: InFlightCall) -> TensorRequest:
        inputs = unpack(message.inputs)
        inputs.update({name: np.stack(self._held(key, places)) for name, places in message.held.items()})
        return TensorRequest(
            inputs,
            message.outputs,
            on_result=partial(self._put_result, call),
            origin=message.origin,
            images=self._images(key, message.images),
            adapter=_number(call),
        )

    def _put_result(self, call: InFlightCall, key: Hashable, result: Result) -> None:
        """Called from an engine's thread, which sends the answer itself: no other thread is to wake for it.

        The worker drops the answer to a call that it cancelled meanwhile.  What a call holds is for the main
        thread, which has it before the worker can ask for more.
        """
        call_key = cast(Key, key)
        if call.holds:
            self._inbox.put((None, Completed(call_key, result)))
        else:
            self._answer(call_key, result)
            self._inbox.put((None, Completed(call_key)))

    def _completed(self, peer: Peer, event: Completed) -> None:
        """A call that was cancelled meanwhile is not in `_calls`, and its result is dropped."""
        call, result = self._calls.find(event.key), event.result
        if call is not None:
            if call.holds and isinstance(result, dict):
                result = _hold(call, event.key[1], result)
            else:
                self._calls.ended(event.key, call)
            if result is not None:
                self._answer(event.key, result)
        self._publisher.note_change()

    def _answer(self, key: Key, result: Result) -> None:
        """Send the result of a call; may be called in any thread."""
        peer, request_id = key
        self._listener.send([(peer, inferred(request_id, result))])

    def _generation(
        self, key: Key, message: Submit, call: InFlightCall, guide: GuideMaker | None = None
    ) -> GenerationRequest:
        return GenerationRequest(
            **asdict(message.request),
            guide=guide,
            encoder_states=[] if message.context is None else self._held(key, message.context),
            images=self._images(key, message.images),
            adapter=_number(call),
        )

    def _images(self, key: Key, given: ImageEmbeds | None) -> list[PromptEmbeds | None]:
        """The images of each prompt, of embeddings that another call of the same connection holds."""
        return [] if given is None else _images(given, self._held(key, given.request_id))

    def _held(self, key: Key, request_id: int) -> list[NDArray[np.float32]]:
        """The outputs that another call of the same connection holds."""
        call = self._calls.find((key[0], request_id))
        if call is None or not call.held:
            raise EngineError("what this request attends to is not held any more")
        return call.held

    def _take(self, address: EngineAddress) -> ModelInstance:
        if self.refused:
            raise Unavailable("the server is shutting down")
        return self._instances.find(address.model, address.instance_id)

    def _abort(self, peer: Peer, message: Abort) -> None:
        self._calls.abort((peer, message.request_id), message.choice)
        self._publisher.note_change()

    def _cancel(self, peer: Peer, message: CancelRequest) -> None:
        """End what other clients have sent, of any worker: each of those is sent its end."""
        keys = self._calls.named(message.name, message.account)
        ends = [(key[0], self.cancelled(key)) for key in keys]
        self._listener.send([*ends, (peer, Cancelled(message.request_id, len(keys)))])
        self._publisher.note_change()

    def generating(self) -> list[Key]:
        """The calls that generate or are to, without those that are held back."""
        stepped = [key for key, call in self._calls.items() if call.engine.kind is EngineKind.STEPPED]
        return [key for key in stepped if key not in self._held_back]

    def cancelled(self, key: Key) -> Frame | Inferred:
        """The end of a call that was cancelled, of each choice that was open."""
        call, request_id = self._calls.find(key), key[1]
        assert call is not None
        if call.engine.kind is not EngineKind.STEPPED:
            self._calls.abort(key)
            return inferred(request_id, RequestError("The request was cancelled."))
        outputs = {output.choice: output for output in cast(SteppedEngine, call.engine).abort(key)}
        ends = [outputs.get(choice) or aborted_output(key, choice) for choice in sorted(call.open)]
        self._calls.ended(key, call)
        return Frame([update_of(request_id, end) for end in ends])


def _number(call: InFlightCall) -> int:
    """The load number of the call's adapter."""
    return BASE if call.adapter is None else call.adapter.number


def _hold(call: InFlightCall, request_id: int, result: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Store the vectors of tokens with their call; the reply is where each text's begin."""
    lengths = result["lengths"]
    call.held.extend(np.split(result["embeddings"], np.cumsum(lengths)[:-1]))
    return {"lengths": lengths, "held": np.array([request_id], np.int64)}


def _images(embeds: ImageEmbeds, held: list[NDArray[np.float32]]) -> list[PromptEmbeds | None]:
    """The images of each prompt, from the embeddings of all; EngineError where others are held."""
    sizes = [num_tokens for images in embeds.images for _, num_tokens, *_ in images]
    if [len(embeddings) for embeddings in held] != sizes:
        raise EngineError(
            f"the encoder gives {[len(embeddings) for embeddings in held]} embeddings for images of {sizes} "
            "tokens: preprocessor_config.json, config.json and the encoder are of different models"
        )
    left = iter(held)
    return [
        PromptEmbeds(
            [start for start, *_ in images],
            list(islice(left, len(images))),
            [digest for _, _, digest, _ in images],
            [grid for *_, grid in images if grid is not None],
        )
        if images
        else None
        for images in embeds.images
    ]
