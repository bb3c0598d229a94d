"""Shows how far models are fetched: a bar in a terminal, now and then a line in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from pipelines.hub.base.events import (
    CONVERTING,
    DOWNLOADING,
    RESOLVING,
    VERIFYING,
    WAITING,
    PullEvent,
    Report,
)

LINE_S = 5.0
"""The seconds between two lines about the same model's bytes in a log."""
LARGE = 10_000_000
"""A smaller file is verified at once."""
WORDS = {
    RESOLVING: "looking it up",
    WAITING: "waiting: another process fetches it",
    VERIFYING: "verifying",
    CONVERTING: "",
}


class Lines:
    """Writes lines to stderr."""

    def __init__(self, name: str) -> None:
        self._name, self._last, self._last_s = name, "", 0.0
        self._begin: tuple[float, int] | None = None
        self._completed = -1

    def __call__(self, event: PullEvent) -> None:
        now_s = time.monotonic()
        if event.status == DOWNLOADING:
            if self._begin is None:
                self._begin = (now_s, event.completed)
            is_end = event.completed == event.total != self._completed
            if now_s - self._last_s < LINE_S and not is_end:
                return
            self._completed = event.completed
            self._say(self._bytes(event, now_s), now_s)
        elif event.status in WORDS and not (event.status == VERIFYING and event.file_total < LARGE):
            self._say(" ".join(filter(None, (WORDS[event.status], event.file or event.message))), now_s)

    def _say(self, text: str, now_s: float) -> None:
        if text != self._last:
            click.echo(f"{self._name}: {text}", err=True)
        self._last, self._last_s = text, now_s

    def _bytes(self, event: PullEvent, now_s: float) -> str:
        assert self._begin is not None
        passed_s = max(now_s - self._begin[0], 1e-3)
        rate = (event.completed - self._begin[1]) / passed_s
        left = f", {(event.total - event.completed) / rate:.0f} s left" if rate > 0 else ""
        part = 100 * event.completed // max(event.total, 1)
        return f"{part} % of {shown_bytes(event.total)}, {shown_bytes(rate)}/s{left}"


class Bar:
    """Moves one bar in a terminal."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._name, self._progress = name, progress
        self._task = progress.add_task(name, total=None)

    def __call__(self, event: PullEvent) -> None:
        what = WORDS.get(event.status, "")
        detail = event.message if event.status == CONVERTING else ""
        text = " ".join(filter(None, (self._name, what, detail[:60])))
        if event.total:
            self._progress.update(self._task, description=text, completed=event.completed, total=event.total)
        else:
            self._progress.update(self._task, description=text)


@contextmanager
def progress_of(name: str) -> Iterator[Report]:
    """What takes the events of one model, and shows them until the end of the block."""
    if not sys.stderr.isatty():
        yield Lines(name)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(name, progress)


def shown_bytes(num_bytes: float) -> str:
    """A size for people."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= bytes_of:
            return f"{num_bytes / bytes_of:.1f} {unit}"
    return f"{num_bytes:.0f} B"
