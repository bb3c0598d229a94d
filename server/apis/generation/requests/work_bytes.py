"""How long it takes to prepare a request, before its model runs."""

from __future__ import annotations

from typing import Any

from server.http.exchange import LONG_BODY_BYTES
from server.http.work_queue import LONG_WORK_BYTES


def work_bytes(request: Any, num_bytes: int) -> int:
    """A body's size as a measure of the work; at least the size of text that takes as long to prepare.

    A chat template of the request is a program, an image may have many more pixels than bytes, and a grammar
    takes longer to compile than to read.
    """
    if getattr(request, "chat_template", None) is not None or getattr(request, "shows_images", False):
        return max(num_bytes, LONG_WORK_BYTES + 1)
    return max(num_bytes, LONG_BODY_BYTES + 1) if request.compiles else num_bytes
