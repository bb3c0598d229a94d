"""What is reported while a model is fetched: one event for each change, a few in a second for bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock

import msgspec

from pipelines.hub.base.errors import PullCancelled

RESOLVING, WAITING, DOWNLOADING = "resolving", "waiting", "downloading"
VERIFYING, CONVERTING, SUCCESS = "verifying", "converting", "success"
FAILED, CANCELLED = "failed", "cancelled"
ENDS = (SUCCESS, FAILED, CANCELLED)
"""States after which nothing follows."""
REPORT_S = 0.25
"""The seconds between two reports of a file's bytes."""


class PullEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of fetching a model.

    `completed` of `total` are bytes of all files of the model; `file`, `digest` (its SHA-256 or git id),
    `file_completed` and `file_total` are of the file that the event is about.  `model` is the name under
    which it is served, and `error` says what went wrong.
    """

    status: str
    model: str = ""
    file: str = ""
    digest: str = ""
    file_completed: int = 0
    file_total: int = 0
    completed: int = 0
    total: int = 0
    message: str = ""
    error: str = ""


Report = Callable[[PullEvent], None]


class Stop:
    """A wish to end that every thread of a download looks at; it may be made of another one."""

    def __init__(self, outer: Stop | None = None) -> None:
        self._event = Event()
        self._outer = outer

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set() or (self._outer is not None and self._outer.is_set())

    def check(self) -> None:
        """Raises PullCancelled once it is wished."""
        if self.is_set():
            raise PullCancelled("cancelled")

    def wait(self, seconds: float) -> None:
        """Wait, at most until it is wished.  Raises PullCancelled then."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            self._event.wait(min(left, 0.1))
        self.check()


class Meter:
    """Counts the bytes of a model's files, from any thread, and reports them."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total = report, total
        self._completed: dict[str, int] = {}
        self._last_s: dict[str, float] = {}
        self._lock = Lock()

    @property
    def completed(self) -> int:
        with self._lock:
            return sum(self._completed.values())

    def set(self, path: str, digest: str, completed: int, file_total: int) -> None:
        """Note how many bytes of a file are there; reported at its begin and end, and now and then."""
        now_s = time.monotonic()
        with self._lock:
            self._completed[path] = completed
            is_due = now_s - self._last_s.get(path, 0.0) >= REPORT_S or completed >= file_total
            if not is_due:
                return
            self._last_s[path] = now_s
            self._report(self._event(DOWNLOADING, path, digest, completed, file_total))

    def state(self, status: str, path: str, digest: str, file_total: int, message: str = "") -> None:
        """Report that something else than bytes happens with a file."""
        with self._lock:
            here = self._completed.get(path, 0)
            self._report(self._event(status, path, digest, here, file_total, message))

    def _event(
        self, status: str, path: str, digest: str, here: int, file_total: int, message: str = ""
    ) -> PullEvent:
        return PullEvent(
            status,
            file=path,
            digest=digest,
            file_completed=here,
            file_total=file_total,
            completed=sum(self._completed.values()),
            total=self._total,
            message=message,
        )
