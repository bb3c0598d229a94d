"""`python -m pipelines.hub.pull_process`: one pull that a running server started.

A request comes through stdin as JSON.  Events go into a file, one line of JSON each, which this process holds
locked while it runs: any process of the server reads it there.  A file NAME.cancel beside it ends the pull;
so does the end of the server, which removes the folder.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import msgspec

from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import HubError, PullCancelled
from pipelines.hub.base.events import CANCELLED, FAILED, PullEvent, Stop
from pipelines.hub.base.names import parse_name
from pipelines.hub.conversion import Converter
from pipelines.hub.order import CANCEL, PullOrder
from pipelines.hub.pull import Puller, WantedModel

LOOK_S = 0.2
END_S = 3.0
"""Seconds that threads have to end after a cancel; what they fetched is resumed later."""


class EventFile:
    """The file of a pull's events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._has_ended = False

    def write(self, event: PullEvent, is_last: bool = False) -> None:
        """Add an event; none follows the last one."""
        with self._lock:
            if not self._has_ended:
                self._has_ended = is_last
                self._file.write(msgspec.json.encode(event) + b"\n")


def main() -> None:
    events = EventFile(Path(sys.argv[1]))
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=PullOrder)
    stop, ended = Stop(), threading.Event()
    watch = threading.Thread(target=_watch, args=(events, stop, ended), daemon=True)
    watch.start()
    last = _pull(order, events, stop)
    if last is not None:
        events.write(last, is_last=True)
    ended.set()


def _pull(order: PullOrder, events: EventFile, stop: Stop) -> PullEvent | None:
    """The event of a failure; None after success, which is reported by then."""
    try:
        cache = Path(order.cache) if order.cache else None
        name = parse_name(order.name, order.hub, order.revision)
        wish = WantedModel(name, order.local, order.device, max_bytes=order.max_bytes)
        environment = HubEnvironment.read(cache, max_cache_gb=order.max_cache_gb)
        puller = Puller(environment, events.write, stop, Converter(cache))
        puller.pull(wish, Path(order.repository))
    except PullCancelled:
        return PullEvent(CANCELLED)
    except HubError as error:
        return PullEvent(FAILED, error=str(error))
    except OSError as error:
        return PullEvent(
            FAILED, error=f"{error.filename or order.name.partition('?')[0]}: {error.strerror or error}"
        )
    return None


def _watch(events: EventFile, stop: Stop, ended: threading.Event) -> None:
    """End the pull when that is wished, or the server is gone."""
    while not ended.wait(LOOK_S):
        is_orphan = not events.path.exists()
        if not is_orphan and not events.path.with_suffix(CANCEL).exists():
            continue
        stop.set()
        if not ended.wait(END_S):
            events.write(PullEvent(CANCELLED), is_last=True)
            os._exit(0)
        return


if __name__ == "__main__":
    main()
