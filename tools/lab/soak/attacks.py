"""Attacks beside a soak: one key sends them in turns, while another sends small requests and is timed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from tools.lab.soak.attack_kinds import ATTACKS, upload
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
            status, body = await answer_to(request, self._address, ATTACKER_KEY)
            is_broken = any(mark in body for mark in STREAM_ERRORS)
            self.answers[kind][f"{status}, error in the stream" if is_broken else status] += 1


class Neighbour:
    """A client of another key: `outcomes` of its small requests by phase, `stored` what was answered for its
    file and response after the attacks."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._paths: list[str] = []
        self.phase = BEFORE
        self.outcomes: list[Outcome] = []
        self.stored: Counter[str] = Counter()

    async def store(self) -> None:
        """Store a file and a response, to be read after the attacks."""
        body = {"model": CHAT, "input": "hi", "max_output_tokens": 16, "store": True}
        for request in (RawRequest("/v1/responses", json.dumps(body).encode()), upload(b"{}\n")):
            status, answer = await self._answer(request)
            if status == "200":
                self._paths.append(f"{request.path}/{json.loads(answer)['id']}")

    async def read_stored(self) -> None:
        """Read what was stored, and upload another file."""
        for path in self._paths:
            status, _ = await self._answer(RawRequest(path, method="GET"))
            self.stored[f"GET {path.rpartition('/')[0]}: {status}"] += 1
        self.stored[f"POST /v1/files: {(await self._answer(upload(b'{}')))[0]}"] += 1

    async def probe(self) -> None:
        """Send small requests, one after another."""
        while True:
            phase, begin = self.phase, time.perf_counter()
            body = {"model": CHAT, "prompt": "Oslo", "max_tokens": 2, "temperature": 0}
            status, answer = await self._answer(RawRequest("/v1/completions", json.dumps(body).encode()))
            error = "" if status == "200" else f"{status} {answer[:200].decode(errors='replace')}"
            self.outcomes.append(Outcome(phase, time.perf_counter() - begin, error))
            await asyncio.sleep(PROBE_PERIOD_S)

    async def _answer(self, request: RawRequest) -> tuple[str, bytes]:
        return await answer_to(request, self._address, NEIGHBOUR_KEY)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for it; what it raised before is raised."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
