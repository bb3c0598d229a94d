"""Attacks beside a soak: one key sends them in turns, while another sends small requests and is timed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from tools.lab.soak.attack_kinds import ATTACKS, UPGRADE, upload
from tools.lab.soak.raw_requests import RawRequest, answer_to
from tools.lab.soak.request_kinds import CHAT
from tools.lab.soak.sending import STREAM_ERRORS, Outcome

SOAK_KEY, ATTACKER_KEY, NEIGHBOUR_KEY, ADMIN_KEY = "soak", "attacker", "neighbour", "admin"
SETTINGS = {
    "BRAID_API_KEYS": f"{SOAK_KEY},{ATTACKER_KEY},{NEIGHBOUR_KEY}",
    "BRAID_ADMIN_KEYS": ADMIN_KEY,
    "BRAID_FILES_MB": "64",
    "BRAID_RESPONSES_MB": "64",
}
"""Settings of the server: keys, and pools that a few attacks fill."""
QUIET_PART = 0.2
"""The part of the soak's requests that is sent before the attacks."""
AT_ONCE = 2
POLL_S = 0.1
PROBE_PERIOD_S = 0.2
PROBES_PER_LOOK = 10
BEFORE, UNDER, AFTER = "before", "under attack", "after"

Address = tuple[str, int]


class Attacks:
    """`answers`: by kind, how often each status came; `neighbour` is the client that is timed."""

    def __init__(self, address: Address, most: int, seed: int) -> None:
        """`most`: of each kind."""
        self._address = address
        self._turns = iter([(seed, turn, kind) for turn in range(most) for kind in ATTACKS])
        self.neighbour = Neighbour(address)
        self.answers: dict[str, Counter[str]] = defaultdict(Counter)

    async def run(self, is_time: Callable[[], bool]) -> None:
        """Attack once it is time; the neighbour goes on until this is cancelled."""
        await self.neighbour.store()
        probing = asyncio.create_task(self.neighbour.probe())
        try:
            while not is_time():
                await asyncio.sleep(POLL_S)
            self.neighbour.phase = UNDER
            await asyncio.gather(*(self._attack(self._turns) for _ in range(AT_ONCE)))
            self.neighbour.phase = AFTER
            await probing
        finally:
            probing.cancel()

    async def _attack(self, turns: Iterator[tuple[int, int, str]]) -> None:
        for seed, turn, kind in turns:
            request = ATTACKS[kind](Random(f"{seed}-{turn}-{kind}"))
            await asyncio.gather(*(self._send(kind, request) for _ in range(request.copies)))

    async def _send(self, kind: str, request: RawRequest) -> None:
        status, body = await answer_to(request, self._address, ATTACKER_KEY)
        is_broken = any(mark in body for mark in STREAM_ERRORS)
        self.answers[kind][f"{status}, error in the stream" if is_broken else status] += 1
        if request.next_of is not None and status == "200":
            await self._send(kind, request.next_of(body))


class Neighbour:
    """A client of another key: `outcomes` of its small requests by phase.

    `stored`: what was answered when it read its file and its response, uploaded and deleted another file, and
    opened a WebSocket, now and then and after the attacks.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._paths: list[str] = []
        self.phase = BEFORE
        self.outcomes: list[Outcome] = []
        self.stored: Counter[str] = Counter()

    async def store(self) -> None:
        """Store a file and a response, to be read during and after the attacks."""
        body = {"model": CHAT, "input": "hi", "max_output_tokens": 16, "store": True}
        for request in (RawRequest("/v1/responses", json.dumps(body).encode()), upload(b"{}\n")):
            status, answer = await self._answer(request)
            if status == "200":
                self._paths.append(f"{request.path}/{json.loads(answer)['id']}")

    async def use_pools(self) -> None:
        """Read what was stored, upload and delete another file, and open a WebSocket."""
        for path in self._paths:
            await self._use(f"GET {path.rpartition('/')[0]}", RawRequest(path, method="GET"))
        if answer := await self._use("POST /v1/files", upload(b"{}")):
            path = f"/v1/files/{json.loads(answer)['id']}"
            await self._use("DELETE /v1/files", RawRequest(path, method="DELETE"))
        socket = RawRequest("/v1/responses", method="GET", headers=UPGRADE, leaves_after_s=0)
        await self._use("WebSocket /v1/responses", socket)

    async def _use(self, what: str, request: RawRequest) -> bytes:
        """Note the status by `what`; the body where it is 200, else nothing."""
        status, answer = await self._answer(request)
        self.stored[f"{what}: {status}"] += 1
        return answer if status == "200" else b""

    async def probe(self) -> None:
        """Send small requests, one after another."""
        while True:
            phase, begin = self.phase, time.perf_counter()
            body = {"model": CHAT, "prompt": "Oslo", "max_tokens": 2, "temperature": 0}
            status, answer = await self._answer(RawRequest("/v1/completions", json.dumps(body).encode()))
            error = "" if status == "200" else f"{status} {answer[:200].decode(errors='replace')}"
            self.outcomes.append(Outcome(phase, time.perf_counter() - begin, error))
            if len(self.outcomes) % PROBES_PER_LOOK == 0:
                await self.use_pools()
            await asyncio.sleep(PROBE_PERIOD_S)

    async def _answer(self, request: RawRequest) -> tuple[str, bytes]:
        return await answer_to(request, self._address, NEIGHBOUR_KEY)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it; what it raised before is raised."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
