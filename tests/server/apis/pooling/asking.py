"""Requests to one model of a repository, served in this process for as long as they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asgi_client import AsgiClient
from patience import PATIENCE_S
from test_live_models import num_loaded

from server.app import create_app
from server.base.settings import Settings
from server.connect import connect


def asker(models: Path, name: str) -> Callable[..., list[Any]]:
    """Sends (path, body) pairs to the model `name`, all at once; gives their answers in order."""

    async def answers(asked: tuple[tuple[str, dict[str, Any]], ...]) -> list[Any]:
        app = create_app(
            connect(Settings(models=models, in_process=True, responses_store=False, first_run=False))
        )
        async with AsgiClient(app) as client:
            async with asyncio.timeout(PATIENCE_S):
                while not num_loaded(await client.get("/v1/models")):
                    await asyncio.sleep(0.02)
            return await asyncio.gather(*(client.post(path, {"model": name, **body}) for path, body in asked))

    return lambda *asked: asyncio.run(answers(asked))
