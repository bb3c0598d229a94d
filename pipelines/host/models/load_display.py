"""Shows the progress of a load where the server was started: a bar in a terminal, or lines in the log."""

from __future__ import annotations

import logging
import sys
from time import monotonic
from typing import TextIO

from pipelines.wire.messages import how_far

log = logging.getLogger("braid.host")

LOG_INTERVAL_S = 5.0
"""Seconds between two lines of the log."""
CELLS = 30
"""Characters of a bar."""
CLEAR = "\r\x1b[K"


class LoadDisplay:
    """Shows one load: a bar where `terminal`, by default stderr, is a terminal, else lines in the log."""

    def __init__(self, name: str, terminal: TextIO | None = None) -> None:
        self._name, self._terminal = name, terminal or sys.stderr
        self._has_bar, self._is_drawn = self._terminal.isatty(), False
        self._due_s = monotonic() + LOG_INTERVAL_S

    def show(self, what: str, share: float) -> None:
        """Show the task `what`, of which `share` is done; a finished one leaves no bar."""
        if self._has_bar and share >= 1:
            self.end()
        elif self._has_bar:
            self._draw(what, share)
        elif monotonic() >= self._due_s:
            self._due_s = monotonic() + LOG_INTERVAL_S
            log.info("%s: %s", self._name, how_far(what, share))

    def end(self) -> None:
        """Erase the bar, so that the next line of the log begins in its place."""
        if self._is_drawn:
            self._is_drawn = False
            self._terminal.write(CLEAR)
            self._terminal.flush()

    def _draw(self, what: str, share: float) -> None:
        self._is_drawn = True
        bar = "█" * int(CELLS * share)
        self._terminal.write(f"{CLEAR}{self._name}: {bar:░<{CELLS}} {how_far(what, share)}")
        self._terminal.flush()
