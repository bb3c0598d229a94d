"""The gRPC server of a worker; all workers listen at one port."""

from __future__ import annotations

import asyncio

from grpc import aio

from server.apis.kserve.grpc.service import InferenceService
from server.base.places import bracketed
from server.services.services import Services

DRAIN_MARGIN_S = 3
"""Calls in flight end this long before the master would kill the worker."""
MAX_SENT_BYTES = 256 << 20


class GrpcListener:
    """Listens from `start` to `stop`; a second `stop` waits for the first one."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._address = f"{bracketed(settings.host)}:{settings.grpc_port}"
        self._grace_s = max(1, settings.grace_s - DRAIN_MARGIN_S)
        self._stopping: asyncio.Task[None] | None = None
        self._server = aio.server(
            options=[
                ("grpc.so_reuseport", 1),
                ("grpc.max_receive_message_length", settings.max_body_mb << 20),
                ("grpc.max_send_message_length", MAX_SENT_BYTES),
            ],
            maximum_concurrent_rpcs=settings.max_concurrency,
        )
        self._server.add_generic_rpc_handlers((InferenceService(services).handler(),))

    async def start(self) -> int:
        """The port; raises RuntimeError where it cannot be listened at."""
        port: int = self._server.add_insecure_port(self._address)
        await self._server.start()
        return port

    def drain(self) -> None:
        """Take no further calls; those in flight go on."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._server.stop(self._grace_s), name="grpc-drain")

    async def stop(self) -> None:
        self.drain()
        if self._stopping is not None:
            await self._stopping
