"""Repeats a call in a thread while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated_during(call: Callable[[], object], period_s: float, thread_name: str) -> Iterator[None]:
    """Call `call` every `period_s` seconds during the block, in a thread that has ended behind it."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(period_s):
            call()

    thread = threading.Thread(target=repeat, name=thread_name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
