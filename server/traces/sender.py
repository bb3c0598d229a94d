"""Sends the spans of ended requests to a collector, in a thread of its own: no reply waits for it."""

from __future__ import annotations

import importlib
import logging
import os
import queue
import threading
from collections.abc import Mapping

from server.base.version import VERSION
from server.services.request_log import EndedRequest
from server.traces.endpoint import MODULES, are_wanted, check_traces, protocol_of

log = logging.getLogger("braid.server")

MAX_WAITING = 2048
"""Requests without spans so far; those that come while there are as many get none."""
CLOSE_S = 5.0
"""How long a worker that ends waits for the last spans to be sent."""


class TraceSender:
    """Made once in a worker, where traces are on."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from server.traces.spans import SpanWriter

        module, _ = MODULES[protocol_of(environment)]
        resource = Resource.create({"service.version": VERSION})
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "braid"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = importlib.import_module(module).OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._writer = SpanWriter(self._provider.get_tracer("braid", VERSION))
        self._waiting: queue.Queue[EndedRequest | None] = queue.Queue(MAX_WAITING)
        self._num_lost = 0
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, ended: EndedRequest) -> None:
        """Called on the event loop with each request that has ended."""
        try:
            self._waiting.put_nowait(ended)
        except queue.Full:
            self._num_lost += 1
            if self._num_lost.bit_count() == 1:  # the 1st, 2nd, 4th …: one line for many
                log.warning("%d requests have no trace: they end faster than spans are made", self._num_lost)

    def close(self) -> None:
        """Send what is left, for CLOSE_S at most."""
        try:
            self._waiting.put(None, timeout=CLOSE_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (ended := self._waiting.get()) is not None:
            try:
                self._writer.write(ended)
            except Exception:
                log.exception("the spans of request %s could not be made", ended.record.id)
        self._provider.shutdown()


def trace_sender(environment: Mapping[str, str] = os.environ) -> TraceSender | None:
    """None where no endpoint for traces is set.  Raises SettingsError where they cannot be sent."""
    if not are_wanted(environment):
        return None
    check_traces(environment)
    return TraceSender(environment)
