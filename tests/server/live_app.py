"""Applications around real graphs with their engine in the same process, and what they answer.

One application serves all requests of a test file to the same folder with the same settings: to load its models
takes longer than most tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from asgi_client import Answer, AsgiClient
from patience import PATIENCE_S

from server.app import create_app
from server.base.settings import Settings
from server.connect import connect
from server.process.worker_state import STATE_KEY, WorkerProcess, WorkerState

RUNNING: dict[tuple[Path, Settings], LiveApp] = {}


class LiveApp:
    """An application that runs until `close`; its models are loaded."""

    def __init__(self, settings: Settings) -> None:
        self._runner = asyncio.Runner()
        self.app = create_app(connect(settings))
        self.client = AsgiClient(self.app)
        self.process = self.client.state[STATE_KEY] = WorkerProcess(WorkerState())
        self._runner.run(self._start())

    def run(self, scene: Any) -> Any:
        """What a coroutine gives that asks the application."""
        return self._runner.run(scene)

    def ask(self, asked: Iterable[tuple[str, Any]]) -> list[Answer]:
        """The answer to each (path, body), one after the other; a body of None is a GET."""
        return self.run(self._each(asked))

    def ask_together(self, asked: Iterable[tuple[str, Any]]) -> list[Answer]:
        """The answers to bodies that are sent at once, in order."""
        return self.run(self._all(asked))

    def close(self) -> None:
        self._runner.run(self.client.__aexit__())
        self._runner.close()

    async def _start(self) -> None:
        await self.client.__aenter__()
        async with asyncio.timeout(PATIENCE_S):
            while (await self.client.get("/v2/health/ready")).status != 200:
                await asyncio.sleep(0.02)

    async def _each(self, asked: Iterable[tuple[str, Any]]) -> list[Answer]:
        return [
            await (self.client.get(path) if body is None else self.client.post(path, body))
            for path, body in asked
        ]

    async def _all(self, asked: Iterable[tuple[str, Any]]) -> list[Answer]:
        return await asyncio.gather(*(self.client.post(path, body) for path, body in asked))


def live_app(models: Path, **settings: Any) -> LiveApp:
    """The application of this test file for a folder of models, which must not change from then on."""
    given = {"models": models, "in_process": True, "responses_store": False, "first_run": False}
    chosen = Settings(**(given | settings))
    if (models, chosen) not in RUNNING:
        RUNNING[models, chosen] = LiveApp(chosen)
    return RUNNING[models, chosen]


def close_all() -> None:
    while RUNNING:
        RUNNING.popitem()[1].close()


def answers(models: Path, asked: Iterable[tuple[str, Any]], **settings: Any) -> list[Answer]:
    """The answer to each (path, body), one after the other; a body of None is a GET."""
    return live_app(models, **settings).ask(asked)
