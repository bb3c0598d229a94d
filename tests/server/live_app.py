"""An application around real graphs with its engine in the same process, and what it answers."""

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


def answers(models: Path, asked: Iterable[tuple[str, Any]], **settings: Any) -> list[Answer]:
    """The answer to each (path, body), in order; a body of None is a GET.  All models are loaded before."""

    async def whole() -> list[Answer]:
        given = {"models": models, "in_process": True, "responses_store": False, "first_run": False}
        app = create_app(connect(Settings(**(given | settings))))
        async with AsgiClient(app) as client:
            async with asyncio.timeout(PATIENCE_S):
                while (await client.get("/v2/health/ready")).status != 200:
                    await asyncio.sleep(0.02)
            return [
                await (client.get(path) if body is None else client.post(path, body)) for path, body in asked
            ]

    return asyncio.run(whole())
