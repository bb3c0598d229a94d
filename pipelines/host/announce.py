"""Tells the person at the terminal that the server is ready.  Knows where; `banner.py` knows the words."""

from __future__ import annotations

import logging
from pathlib import Path

from pipelines.host.banner import banner
from pipelines.wire.messages import Status

log = logging.getLogger("braid.host")


def announce(status: Status, url: str, needs_key: bool) -> None:
    """Print the banner.  Whatever is wrong with it, the host goes on."""
    try:
        print(banner(status, url, needs_key, chat_model(status)), flush=True)
    except Exception:
        log.exception("the banner could not be written")


def chat_model(status: Status) -> str | None:
    """The first ready model that answers chat requests."""
    from pipelines.loading import graphs_of
    from pipelines.repository.model_folders import open_folder

    ready = [open_folder(Path(entry.folder), entry.name) for entry in status.models if entry.state == "ready"]
    graphs = graphs_of(ready)
    for folder in ready:
        graph = graphs(folder.name)
        if graph is not None and graph.task == "chat":
            return folder.name
    return None
