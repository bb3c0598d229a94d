"""What uvicorn is started with so that it serves WebSockets, where the library for them is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

LIBRARY = "websockets"


def has_sockets() -> bool:
    return find_spec(LIBRARY) is not None


def socket_options() -> dict[str, Any]:
    """Settings of uvicorn's; without the library it treats a handshake as a plain request."""
    if not has_sockets():
        return {"ws": "none"}
    from server.http.bounded_socket import MAX_MESSAGE_BYTES, PING_S, PONG_S, BoundedSocket

    return {
        "ws": BoundedSocket,
        "ws_max_size": MAX_MESSAGE_BYTES,
        "ws_ping_interval": PING_S,
        "ws_ping_timeout": PONG_S,
        "ws_per_message_deflate": False,
    }
