"""A server's profile over HTTP, and streams that keep a model busy meanwhile.

Of the standard library alone.
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
START_TIMEOUT_S = 60.0
"""Maximum wait for all streams to start."""
EVENT = b"data: {"


class RequestRefused(Exception):
    """The server cannot be reached, or refused the request."""


@dataclass(frozen=True)
class Server:
    url: str
    key: str | None = None

    def models(self) -> list[str]:
        return [model["id"] for model in self._get("/v3/models")["data"]]

    def profile(self, model: str, recent_s: float = 60.0) -> dict[str, Any]:
        """The model's profile, with percentiles of the last `recent_s` seconds.  Raises RequestRefused."""
        return self._get(f"/v3/models/{urllib.parse.quote(model)}/profile?seconds={recent_s:.3f}")

    def open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request and return the open reply.  Raises RequestRefused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers)
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            raise RequestRefused(f"{path}: {error.code} {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise RequestRefused(f"{self.url}: {error}") from error

    def _get(self, path: str) -> dict[str, Any]:
        with self.open(path) as reply:
            content: dict[str, Any] = json.load(reply)
            return content


@contextmanager
def streams(server: Server, model: str, number: int, words: int) -> Iterator[None]:
    """Keep `number` streams running while the block runs, each followed by another; then disconnect.

    The block starts when every stream has started.  Raises RequestRefused when the server refuses one.
    """
    ended, started = threading.Event(), threading.Semaphore(0)
    errors: list[RequestRefused] = []
    threads = [
        threading.Thread(target=_streams, args=(server, model, own, words, ended, started, errors))
        for own in range(number)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            started.acquire(timeout=START_TIMEOUT_S)
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def _streams(
    server: Server,
    model: str,
    own: int,
    words: int,
    ended: threading.Event,
    started: threading.Semaphore,
    errors: list[RequestRefused],
) -> None:
    """Run one stream after another; each prompt has a unique beginning, so that no prefix is reused."""
    has_started = False
    try:
        while not ended.is_set() and not errors:
            prompt = f"{own} {time.monotonic_ns()}" + " the" * words
            body = {"model": model, "prompt": prompt, "max_tokens": MAX_TOKENS, "ignore_eos": True}
            with server.open("/v1/completions", {**body, "temperature": 0, "stream": True}) as reply:
                for line in reply:
                    if not has_started and line.startswith(EVENT):
                        has_started = True
                        started.release()
                    if ended.is_set():
                        return
    except RequestRefused as error:
        errors.append(error)
    except OSError as error:
        errors.append(RequestRefused(f"a stream ended early: {error}"))
    finally:
        if not has_started:
            started.release()
