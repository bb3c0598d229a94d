"""Prints the banner that reports a ready server."""

from __future__ import annotations

import logging
from pathlib import Path

from pipelines.host.banner import banner
from pipelines.wire.messages import Status

log = logging.getLogger("braid.host")


def announce(status: Status, models: Path, url: str, needs_key: bool, default_model: str | None) -> None:
    """Print the banner.  A fault in it does not stop the host."""
    try:
        model = chat_model(status, default_model)
        print(banner(status, models, url, needs_key, model), flush=True)
    except Exception:
        log.exception("the banner could not be written")


def chat_model(status: Status, default_model: str | None = None) -> str | None:
    """The default model if it is ready and its task is chat, else the first model that is so."""
    chats = [entry.name for entry in status.models if entry.state == "ready" and entry.task == "chat"]
    return default_model if default_model in chats else next(iter(chats), None)
