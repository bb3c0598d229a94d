"""Keys of a terminal, one at a time, without waiting for a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

QUIT = {"q", "Q", "\x03", "\x04"}
STEPS = {"\t": 1, "\x1b[B": 1, "\x1b[C": 1, "\x1b[A": -1, "\x1b[D": -1, "\x1b[Z": -1}
"""Tab and arrows → how far the choice moves."""


@contextmanager
def single_keys() -> Iterator[None]:
    """Keys come at once, and are not shown; the terminal is as before at the end."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def pressed(wait_s: float) -> str:
    """The next key, with all bytes that it sends; empty where none comes in time."""
    if not select.select([sys.stdin], [], [], wait_s)[0]:
        return ""
    return os.read(sys.stdin.fileno(), 16).decode(errors="replace") or "q"
