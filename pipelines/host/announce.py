"""Prints the banner that reports a ready server."""

from __future__ import annotations

import logging

from pipelines.host.banner import banner
from pipelines.wire.messages import Status

log = logging.getLogger("braid.host")


def announce(status: Status, url: str, needs_key: bool) -> None:
    """Print the banner.  A fault in it does not stop the host."""
    try:
        print(banner(status, url, needs_key, chat_model(status)), flush=True)
    except Exception:
        log.exception("the banner could not be written")


def chat_model(status: Status) -> str | None:
    """The first ready model whose task is chat."""
    chats = (entry.name for entry in status.models if entry.state == "ready" and entry.task == "chat")
    return next(chats, None)
