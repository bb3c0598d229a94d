"""Checks before a server with gRPC starts: each would else fail in every worker, or in silence."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec

from server.base.settings import Settings

INSTALL = "gRPC needs the extra `grpc`: pip install 'braid-server[grpc]'"


def check_grpc(settings: Settings, port: int) -> None:
    """End the process where gRPC is not installed, its port is taken, or TLS is asked for.

    Workers share the port; without this check another server of the same user would share it too.
    """
    if find_spec("grpc") is None:
        sys.exit(f"Braid cannot start: {INSTALL}")
    if settings.tls:
        sys.exit("Braid cannot start: BRAID_GRPC_PORT has no TLS: leave it out, or use a proxy with TLS")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((settings.host, port))
        except OSError as error:
            sys.exit(f"Braid cannot start: BRAID_GRPC_PORT={port}: {error.strerror}")
