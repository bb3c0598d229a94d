"""The calls about one window of sound, which is encoded once.  Does not depend on HTTP fields."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from pipelines.values.node_values import Deferred
from pipelines.values.tasks import SpeechInput
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.apis.speech.windows import Window
from server.http.exchange import ClientGone, Exchange
from server.services.services import Services

T = TypeVar("T")


class WindowCalls:
    """The calls about one window: the engine host holds its frames from the first one on, for all of them.

    Leaving it as a context closes them, and frees the frames; so does the end of the exchange.
    """

    def __init__(self, services: Services, pipeline: Pipeline, exchange: Exchange, window: Window) -> None:
        self.window = window
        self._client = services.route(exchange)
        self._pipeline = pipeline
        self._exchange = exchange
        self._calls: list[Call] = []
        self._closed = False
        exchange.at_end(self.close)
        exchange.when_gone(self.close)

    async def open(self, request: SpeechInput) -> Call:
        """A call that has begun, after the ones before it have ended.

        The first one turns the sound into features, off the event loop.
        """
        request = replace(request, windows=[self.window.sound])
        client, tenant, trace = self._client, self._exchange.tenant, self._exchange.trace
        if self._calls:
            call = self._pipeline.prepare(request, client, tenant, self._calls[0], trace)
        else:
            call = await self._exchange.long_work(
                lambda: self._pipeline.prepare(request, client, tenant, trace=trace), self.window.sound.nbytes
            )
        if self._closed:
            raise ClientGone
        self._calls.append(call)
        call.start()
        return call

    async def value(self, deferred: Deferred[T]) -> T:
        """What the last call left to be read.  Raises ClientGone where it was closed."""
        found = await self._calls[-1].value(deferred)
        if found is None:
            raise ClientGone
        return found

    def close(self) -> None:
        self._closed = True
        for call in self._calls:
            call.close()

    def __enter__(self) -> WindowCalls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
