"""Sends the requests of a load when they are due, and records what became of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tools.client.api_server import ApiServer
from tools.client.connection import Connection, ConnectionBroken
from tools.client.http_client import error_message
from tools.client.timed_reply import timed_pieces, whole
from tools.load_test.outcome import Outcome, read_stream
from tools.load_test.plan import PlannedRequest

FAILURES = ((TimeoutError, "timeout"), (ConnectionRefusedError, "connection refused"))
BROKEN = "connection broken"


class Sender:
    """Sends to one server; connections are used again, as clients do.  `in_flight` is how many run now."""

    def __init__(self, server: ApiServer, path: str, timeout_s: float) -> None:
        self._server, self._path, self._timeout_s = server, server.path + path, timeout_s
        self._idle: list[Connection] = []
        self._begin_s = 0.0
        self.in_flight = 0

    async def run(
        self, planned: Sequence[PlannedRequest], streams: int | None, record: Callable[[Outcome], None]
    ) -> float:
        """Send all, at most `streams` at a time; returns the seconds until the last reply ended."""
        places = asyncio.Semaphore(streams or len(planned))
        self._begin_s = time.perf_counter()
        async with asyncio.TaskGroup() as running:
            for request in planned:
                if request.at_s is not None:
                    await asyncio.sleep(request.at_s - self._now_s())
                await places.acquire()
                task = running.create_task(self._send(request, record))
                task.add_done_callback(lambda _: places.release())
        return self._now_s()

    def close(self) -> None:
        for connection in self._idle:
            connection.close()

    async def _send(self, request: PlannedRequest, record: Callable[[Outcome], None]) -> None:
        sent_s = self._now_s()
        outcome = Outcome(sent_s if request.at_s is None else request.at_s, sent_s)
        connection = self._connection()
        self.in_flight += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._reply(connection, request, outcome)
            self._idle.append(connection)
        except (OSError, ConnectionBroken, TimeoutError) as error:
            connection.close()
            outcome.failure = next((name for kind, name in FAILURES if isinstance(error, kind)), BROKEN)
            outcome.message = str(error)
        finally:
            self.in_flight -= 1
        record(outcome)

    async def _reply(self, connection: Connection, request: PlannedRequest, outcome: Outcome) -> None:
        await connection.send("POST", self._path, request.body)
        pieces = await timed_pieces(connection, lambda: self._now_s() - outcome.due_s)
        outcome.end_s = self._now_s() - outcome.due_s
        if connection.status == 200:
            read_stream(outcome, pieces)
        else:
            outcome.failure = f"HTTP {connection.status}"
            outcome.message = error_message(connection.status, whole(pieces))

    def _connection(self) -> Connection:
        """One that is open, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_broken:
                return connection
            connection.close()
        server = self._server
        return Connection(server.host, server.port, server.key, server.is_tls)

    def _now_s(self) -> float:
        return time.perf_counter() - self._begin_s
