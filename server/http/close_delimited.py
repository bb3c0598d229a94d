"""Responses to HTTP/1.0, which has no chunks: the end of the connection is the end of the body."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class CloseDelimitedCycle(RequestResponseCycle):
    """Uvicorn's exchange of one request, without chunks and without `100 Continue`."""

    @classmethod
    def replace(cls, cycle: RequestResponseCycle) -> None:
        """Make a cycle that has not begun one of these; uvicorn does not let a protocol choose its class."""
        cycle.__class__ = cls
        cycle.waiting_for_100_continue = False

    async def send(self, message: Any) -> None:
        self.chunked_encoding = False
        self.expected_content_length = len(message.get("body", b""))  # of what follows: not known, so this
        await super().send(message)
