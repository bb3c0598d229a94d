"""A server's profile, and streams that keep a model busy meanwhile."""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed

MAX_TOKENS = 256
START_TIMEOUT_S = 60.0
"""Maximum wait for all streams to start."""


def profile_of(server: ApiServer, model: str, recent_s: float = 60.0) -> Any:
    """The model's profile, with percentiles of the last `recent_s` seconds.  Raises RequestFailed."""
    return server.get(f"/models/{urllib.parse.quote(model)}/profile?seconds={recent_s:.3f}")


@contextmanager
def streams(server: ApiServer, model: str, number: int, words: int) -> Iterator[None]:
    """Keep `number` streams running while the block runs, each followed by another; then disconnect.

    The block starts when every stream has started.  Raises RequestFailed when the server refuses one.
    """
    ended, started = threading.Event(), threading.Semaphore(0)
    errors: list[RequestFailed] = []
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
    server: ApiServer,
    model: str,
    own: int,
    words: int,
    ended: threading.Event,
    started: threading.Semaphore,
    errors: list[RequestFailed],
) -> None:
    """Run one stream after another; each prompt has a unique beginning, so that no prefix is reused."""
    has_started = False
    try:
        while not ended.is_set() and not errors:
            prompt = f"{own} {time.monotonic_ns()}" + " the" * words
            body = {"model": model, "prompt": prompt, "max_tokens": MAX_TOKENS, "ignore_eos": True}
            with server.events("/completions", {**body, "temperature": 0, "stream": True}) as events:
                for _ in events:
                    if not has_started:
                        has_started = True
                        started.release()
                    if ended.is_set():
                        return
    except RequestFailed as error:
        errors.append(error)
    finally:
        if not has_started:
            started.release()
