"""Prints the banner that reports a ready server."""

from __future__ import annotations

import logging

from pipelines.host.banner import banner
from pipelines.wire.messages import Status

log = logging.getLogger("braid.host")


def announce(status: Status, url: str, needs_key: bool, default_model: str | None) -> None:
    """Print the banner.  A fault in it does not stop the host."""
    try:
        print(banner(status, url, needs_key, chat_model(status, default_model)), flush=True)
    except Exception:
        log.exception("the banner could not be written")


def chat_model(status: Status, default_model: str | None = None) -> str | None:
    """The default model if it is ready and its task is chat, else the first model that is so."""
    chats = [entry.name for entry in status.models if entry.state == "ready" and entry.task == "chat"]
    return default_model if default_model in chats else next(iter(chats), None)
