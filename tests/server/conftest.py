from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgi_client import Answer, AsgiClient
from scripted import ScriptedPipeline, scripted_services

from server.app import create_app

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


class Rig:
    """An application around scripted services, and requests to it from tests that are not async."""

    def __init__(self, pipeline: ScriptedPipeline, **settings: Any) -> None:
        self.pipeline = pipeline
        self.services = scripted_services(pipeline, **settings)
        self.app = create_app(self.services)

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
def make_rig() -> Callable[..., Rig]:
    def make(pipeline: ScriptedPipeline | None = None, **settings: Any) -> Rig:
        return Rig(pipeline or ScriptedPipeline(), **settings)

    return make


@pytest.fixture
def rig(make_rig) -> Rig:
    return make_rig()
