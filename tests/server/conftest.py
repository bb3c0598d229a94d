from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from asgi_client import Answer, AsgiClient
from live_app import close_all
from scripted import ScriptedPipeline, scripted_services

from pipelines.telemetry import deferred, registry
from server.app import App, create_app
from server.base.settings import Settings
from server.services.services import Services

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


FREE: defaultdict[Settings, list[tuple[Services, App]]] = defaultdict(list)
"""Applications that no test uses any more; to make one takes as long as eight requests."""


class Rig:
    """An application around scripted services, and requests to it from tests that are not async."""

    def __init__(self, pipeline: ScriptedPipeline, **settings: Any) -> None:
        self.pipeline = pipeline
        services = scripted_services(pipeline, **settings)
        if free := FREE[services.settings]:
            self.services, self.app = free.pop()
            for each in fields(services):
                setattr(self.services, each.name, getattr(services, each.name))
        else:
            self.services, self.app = services, create_app(services)

    def close(self) -> None:
        """Another test may have the application, around services of its own."""
        FREE[self.services.settings].append((self.services, self.app))

    def run(self, scenario: Callable[[AsgiClient], Awaitable[Any]]) -> Any:
        async def whole() -> Any:
            async with AsgiClient(self.app) as client:
                return await scenario(client)

        return asyncio.run(whole())

    def get(self, path: str, **headers: str) -> Answer:
        return self.run(lambda client: client.get(path, **headers))

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.run(lambda client: client.post(path, body, **headers))

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        return self.run(lambda client: client.ask(method, path, **more))

    def chat(self, **fields: Any) -> Answer:
        return self.post(CHAT, {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **fields})

    def complete(self, **fields: Any) -> Answer:
        return self.post(COMPLETIONS, {"model": "tiny", "prompt": "hi", **fields})


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(pipeline: ScriptedPipeline | None = None, **settings: Any) -> Rig:
        made.append(Rig(pipeline or ScriptedPipeline(), **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(make_rig) -> Rig:
    return make_rig()


@pytest.fixture(scope="module", autouse=True)
def live_apps() -> Iterator[None]:
    """The live applications of a file end with it."""
    yield
    close_all()


@pytest.fixture
def few_metrics() -> None:
    """/metrics has what this test counts alone: all that earlier tests of the process counted takes a second to read."""
    deferred.catch_up()
    for metric in registry._registry()._collector_to_names:
        metric.clear()
    registry.labelled.cache_clear()
    deferred.buffered.cache_clear()
