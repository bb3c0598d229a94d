"""Calls that name an adapter: each enters its engine when the adapter's weights are there.

Files are read in threads, and what was read goes to the engine between two steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, cast

from pipelines.adapters.read_adapter import read_adapter
from pipelines.adapters.weights import AdapterError, AdapterWeights
from pipelines.base.errors import RequestError
from pipelines.host.adapters.adapter_cache import DropWeights, EnterEngine, ReadWeights
from pipelines.host.adapters.adapter_discovery import AdapterFit, adapter_digest
from pipelines.host.adapters.registry import AdapterRegistry, RegisteredAdapter
from pipelines.host.models.in_flight import Key
from pipelines.host.models.instances import ModelInstance, ModelInstances
from pipelines.wire.listener import Inbox, Peer

log = logging.getLogger("braid.host")

CHANGED = "its files were changed since it was loaded; reload the models, or load it again"


@dataclass(frozen=True)
class WeightsRead:
    """The weights of an adapter are read; an error where they cannot be."""

    instance: ModelInstance
    node: str
    adapter: RegisteredAdapter
    weights: AdapterWeights | Exception


class AdapterCalls:
    """Belongs to the thread that holds the turn."""

    def __init__(
        self,
        registry: AdapterRegistry,
        instances: ModelInstances,
        inbox: Inbox,
        threads: Executor,
        enter: Callable[[Key], None],
        refuse: Callable[[Key, Exception], None],
    ) -> None:
        """`enter` and `refuse` end the waiting of a call."""
        self._registry = registry
        self._instances = instances
        self._inbox = inbox
        self._threads = threads
        self._enter = enter
        self._refuse = refuse
        registry.left = self._left
        self.readers: dict[type, Callable[[Peer, Any], None]] = {WeightsRead: self._weights_read}

    def ask(self, key: Key, instance: ModelInstance, node: str, adapter: RegisteredAdapter) -> None:
        """Have a call enter its engine, at once or later."""
        instance.adapters[node].ask(key, adapter)
        self._follow(instance, node)

    def leave(self, key: Key, instance: ModelInstance, node: str) -> None:
        """A call has ended, wherever it was."""
        instance.adapters[node].leave(key)
        self._follow(instance, node)

    def _left(self, number: int) -> None:
        for instance in self._instances:
            for node, places in instance.adapters.items():
                places.left(number)
                self._follow(instance, node)

    def _follow(self, instance: ModelInstance, node: str) -> None:
        """Do what is to be done: all is decided before, because a call that cannot enter leaves."""
        places, engine = instance.adapters[node], instance.model.adapted(node)
        for move in list(places.plan()):
            match move:
                case ReadWeights(adapter):
                    fit = AdapterFit(engine.linears, places.max_rank)
                    self._threads.submit(self._read, instance, node, adapter, fit)
                case DropWeights(number):
                    engine.drop_adapter(number)
                case EnterEngine(key):
                    self._enter(cast(Key, key))

    def _read(self, instance: ModelInstance, node: str, adapter: RegisteredAdapter, fit: AdapterFit) -> None:
        """Read the weights of an adapter; runs in a thread of its own."""
        files = adapter.found
        weights: AdapterWeights | Exception
        try:
            weights = read_adapter(files.path, fit.linears, fit.max_rank)
            if adapter_digest(files.path) != files.digest:
                raise AdapterError(CHANGED)
            weights = replace(weights, digest=bytes.fromhex(files.digest))
        except Exception as error:
            weights = error
        self._inbox.put((None, WeightsRead(instance, node, adapter, weights)))

    def _weights_read(self, peer: Peer, event: WeightsRead) -> None:
        instance, node, adapter, weights = event.instance, event.node, event.adapter, event.weights
        if not self._instances.has(instance):
            return
        if isinstance(weights, Exception):
            self._failed(event, weights)
        else:
            instance.model.adapted(node).put_adapter(adapter.number, weights)
            instance.adapters[node].arrived(adapter.number)
        self._follow(instance, node)

    def _failed(self, event: WeightsRead, error: Exception) -> None:
        adapter, problem = event.adapter, str(error) or type(error).__name__
        log.error("the adapter %s of %s cannot be used: %s", adapter.name, adapter.model, problem)
        refused = RequestError(f"The adapter `{adapter.name}` cannot be used: {problem}", field="model")
        for key in event.instance.adapters[event.node].failed(adapter.number):
            self._refuse(cast(Key, key), refused)
        if isinstance(error, AdapterError):
            self._registry.fail(adapter.number, problem)
