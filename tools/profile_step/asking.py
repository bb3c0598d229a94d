"""A server's profile over HTTP, and streams that keep a model busy meanwhile.

Of the standard library alone.  Knows paths and replies; knows nothing of what they say.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 30.0
MAX_TOKENS = 256
BEGIN_S = 60.0
"""How long streams are waited for to begin."""
EVENT = b"data: {"


class Refused(Exception):
    """The server cannot be asked, or says no."""


@dataclass(frozen=True)
class Server:
    url: str
    key: str | None = None

    def models(self) -> list[str]:
        return [model["id"] for model in self._get("/v3/models")["data"]]

    def profile(self, model: str, recent_s: float = 60.0) -> dict[str, Any]:
        """With percentiles of the last `recent_s` seconds.  Raises Refused."""
        return self._get(f"/v3/models/{urllib.parse.quote(model)}/profile?seconds={recent_s:.3f}")

    def open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The open reply.  Raises Refused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers)
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            raise Refused(f"{path}: {error.code} {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise Refused(f"{self.url}: {error}") from error

    def _get(self, path: str) -> dict[str, Any]:
        with self.open(path) as reply:
            told: dict[str, Any] = json.load(reply)
            return told


@contextmanager
def streams(server: Server, model: str, number: int, words: int) -> Iterator[None]:
    """Keep `number` streams running, each followed by another, and hang up at the end.

    What stands inside begins when each stream has.  Raises Refused when the server does not take one.
    """
    ended, begun = threading.Event(), threading.Semaphore(0)
    faults: list[Refused] = []
    threads = [
        threading.Thread(target=_streams, args=(server, model, own, words, ended, begun, faults))
        for own in range(number)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            begun.acquire(timeout=BEGIN_S)
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]


def _streams(
    server: Server,
    model: str,
    own: int,
    words: int,
    ended: threading.Event,
    begun: threading.Semaphore,
    faults: list[Refused],
) -> None:
    """One stream after another; each begins with a text of its own, so that no prefix is reused."""
    has_begun = False
    while not ended.is_set() and not faults:
        prompt = f"{own} {time.monotonic_ns()}" + " the" * words
        asked = {"model": model, "prompt": prompt, "max_tokens": MAX_TOKENS, "ignore_eos": True}
        try:
            with server.open("/v1/completions", {**asked, "temperature": 0, "stream": True}) as reply:
                for line in reply:
                    if not has_begun and line.startswith(EVENT):
                        has_begun = True
                        begun.release()
                    if ended.is_set():
                        return
        except Refused as error:
            faults.append(error)
            begun.release()
        except OSError as error:
            faults.append(Refused(f"a stream ended early: {error}"))
            begun.release()
