"""Requests to one model of a repository, served in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from live_app import live_app


def asker(models: Path, name: str) -> Callable[..., list[Any]]:
    """Sends (path, body) pairs to the model `name`, all at once; gives their answers in order."""
    return lambda *asked: live_app(models).ask_together(
        (path, {"model": name, **body}) for path, body in asked
    )
