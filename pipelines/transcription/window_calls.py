"""The calls about one window of sound, which is encoded once.  Does not depend on HTTP fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, TypeVar

from pipelines.base.cancellation import ClientGone
from pipelines.nodes.speech.windows import Window
from pipelines.telemetry.request_trace import RequestTrace
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import SpeechInput
from pipelines.worker.call import Call
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.pipeline import Pipeline

T = TypeVar("T")


class TranscribedRequest(Protocol):
    """The request for a transcription: whose it is, and how what it began ends with it."""

    @property
    def tenant(self) -> str: ...

    @property
    def trace(self) -> RequestTrace | None: ...

    def at_end(self, callback: Callable[[], Any]) -> None:
        """Call `callback` when the request has ended."""

    def when_gone(self, callback: Callable[[], Any]) -> None:
        """Call `callback` as soon as the reply is not waited for."""

    async def long_work(self, work: Callable[[], T], num_bytes: int = 0) -> T:
        """What `work` returns, which runs off the event loop."""


class WindowCalls:
    """The calls about one window: the engine host holds its frames from the first one on, for all of them.

    Leaving it as a context closes them, and frees the frames; so does the end of the request.
    """

    def __init__(
        self, client: RequestClient, pipeline: Pipeline, request: TranscribedRequest, window: Window
    ) -> None:
        self.window = window
        self._client = client
        self._pipeline = pipeline
        self._request = request
        self._calls: list[Call] = []
        self._closed = False
        request.at_end(self.close)
        request.when_gone(self.close)

    async def open(self, speech: SpeechInput) -> Call:
        """A call that has begun, after the ones before it have ended.

        The first one turns the sound into features, off the event loop.
        """
        speech = replace(speech, windows=[self.window.sound])
        client, tenant, trace = self._client, self._request.tenant, self._request.trace
        earlier = self._calls[0] if self._calls else None

        def prepare() -> Call:
            return self._pipeline.prepare(speech, client, tenant, earlier, trace)

        is_long = earlier is None or self._pipeline.takes_long
        call = await self._request.long_work(prepare, self.window.sound.nbytes) if is_long else prepare()
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
