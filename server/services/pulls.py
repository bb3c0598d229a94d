"""Models that clients have fetched by name: each by a process of its own, which every worker can follow.

The processes write their events into files of the server's private folder, so that a pull goes on when the
worker that started it ends, and any worker shows and cancels it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import msgspec

from pipelines.base.digests import digest
from pipelines.base.errors import BraidError, NotFound, Overloaded, RequestError
from pipelines.base.file_lock import locked
from pipelines.hub.base.errors import HubError
from pipelines.hub.base.events import ENDS, FAILED, RESOLVING, SUCCESS, PullEvent
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.base.names import HUGGING_FACE, PREFIXES, URL, HubName, parse_name
from pipelines.hub.order import CANCEL, PullOrder
from server.base.settings import Settings

LOOK_S = 0.1
"""Seconds between two looks at the events of a pull."""
SERVED_S = 30.0
"""The longest that a pull waits until the server has seen its model."""
MAX_RUNNING = 4
_ID = re.compile(r"[0-9a-f]{1,64}")
OFF, ALL = "off", "*"
EVENTS, LOCK = ".events", ".lock"
DIED = PullEvent(FAILED, error="the process that fetched it ended")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What a client wants: a name as people write it, and the name under which the model is served."""

    name: str
    local: str | None = None
    hub: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class PullState:
    """A pull that runs or has ended, by its last event."""

    id: str
    name: str
    served_as: str
    last: PullEvent

    @property
    def has_ended(self) -> bool:
        return self.last.status in ENDS


class Pulls:
    """The pulls of a server, as one worker sees them.

    `rescan` has the engine look at its models; `is_known` says whether this worker knows a model by now.
    """

    def __init__(
        self, settings: Settings, rescan: Callable[[], Awaitable[object]], is_known: Callable[[str], bool]
    ) -> None:
        self._settings, self._rescan, self._is_known = settings, rescan, is_known
        self._own_folder: Path | None = None
        self._followers: set[asyncio.Task[None]] = set()

    def check_allowed(self, request: PullRequest) -> HubName:
        """The model that a request names.  Raises RequestError, and NotFound where nothing may be fetched."""
        patterns = self._settings.pull or ((ALL,) if self._settings.needs_admin_key else (OFF,))
        if OFF in patterns:
            raise NotFound(
                "Not Found: this server fetches no models; it does with BRAID_ADMIN_KEYS, or where "
                "BRAID_PULL lists names"
            )
        if not self._settings.models.is_dir():
            raise RequestError("this server serves one file, and has no folder for further models")
        try:
            name = parse_name(request.name, request.hub, request.revision)
            check_local_name(request.local or name.local)
        except HubError as error:
            raise RequestError(str(error), "model") from None
        if not any(_allows(pattern, name) for pattern in patterns):
            raise RequestError(f"BRAID_PULL does not allow {name}, but {', '.join(patterns)}", "model")
        return name

    def start(self, request: PullRequest) -> PullState:
        """Fetch a model, or join the pull that does.  Raises BraidError."""
        name = self.check_allowed(request)
        served_as = request.local or name.local
        pull_id = digest(repr(name), served_as, num_bytes=8)
        path = self._folder() / f"{pull_id}{EVENTS}"
        with locked(self._folder() / LOCK):
            if not _is_running(path) or _state(path).has_ended:
                if sum(map(_is_running, self._folder().glob(f"*{EVENTS}"))) >= MAX_RUNNING:
                    raise Overloaded(f"{MAX_RUNNING} models are fetched already; try again later")
                resolving = PullEvent(RESOLVING, model=served_as)
                self._spawn(path, request, PullState(pull_id, str(name), served_as, resolving))
        follower = asyncio.get_running_loop().create_task(self._follow(pull_id), name=f"pull {pull_id}")
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        return self.state(pull_id)

    def state(self, pull_id: str) -> PullState:
        """Raises NotFound."""
        return _state(self._path(pull_id))

    def states(self) -> list[PullState]:
        """All pulls since the server started, one for each model."""
        paths = sorted(self._folder().glob(f"*{EVENTS}"), key=lambda path: path.stat().st_ctime_ns)
        return [_state(path) for path in paths]

    async def events(self, pull_id: str) -> AsyncIterator[PullEvent]:
        """What has happened since the begin of a pull, and what does, to its end.

        A model that was fetched is known to this worker before the last event.  Raises NotFound.
        """
        path = self._path(pull_id)
        with path.open("rb") as file:
            file.readline()  # what is fetched
            while True:
                was_running = _is_running(path)
                for event in _new_events(file):
                    yield await self._served(event) if event.status == SUCCESS else event
                    if event.status in ENDS:
                        return
                if not was_running:
                    yield DIED
                    return
                await asyncio.sleep(LOOK_S)

    def cancel(self, pull_id: str) -> PullState:
        """End a pull; what was fetched is resumed when it is wanted again.  Raises NotFound."""
        path = self._path(pull_id)
        if _is_running(path):
            path.with_suffix(CANCEL).touch()
        return _state(path)

    async def close(self) -> None:
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)

    async def _follow(self, pull_id: str) -> None:
        """Have the model served, also where its client does not wait for the end."""
        async for _ in self.events(pull_id):
            pass

    async def _served(self, event: PullEvent) -> PullEvent:
        """The event of a model that was fetched, once this worker knows it; its `error` says why it cannot
        be served.
        """
        name = event.model
        try:
            await self._rescan()
        except BraidError as error:  # of all models that cannot be loaded
            if f"; {name}: " in f"; {error.message}":
                return msgspec.structs.replace(event, error=f"{name} is fetched and not served: {error}")
        deadline = asyncio.get_running_loop().time() + SERVED_S
        while not self._is_known(name) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_S)
        return event

    def _spawn(self, path: Path, request: PullRequest, state: PullState) -> None:
        """Start the process; the lock of its file is its own from now on."""
        settings = self._settings
        order = PullOrder(
            request.name,
            str(settings.models),
            request.hub,
            request.revision,
            state.served_as,
            settings.device or "cpu",
            round(settings.pull_gb * 2**30),
            str(settings.cache) if settings.cache else None,
            settings.pull_cache_gb,
        )
        path.with_suffix(CANCEL).unlink(missing_ok=True)
        opened, new = tempfile.mkstemp(dir=path.parent)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
            os.write(opened, msgspec.json.encode([state.name, state.served_as]) + b"\n")
            os.replace(new, path)  # no worker sees it without its first line
            command = [sys.executable, "-P", "-m", "pipelines.hub.pull_process", str(path)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, pass_fds=(opened,), start_new_session=True
            )
            # Reaped whenever it ends, also where the worker has gone by then.
            threading.Thread(target=process.wait, name="braid-pull", daemon=True).start()
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(msgspec.json.encode(order))
        finally:
            os.close(opened)

    def _folder(self) -> Path:
        """Where events are: in the server's private folder, or in one of a worker that has no server."""
        socket = self._settings.engine_socket
        if socket is None and self._own_folder is None:
            self._own_folder = Path(tempfile.mkdtemp(prefix="braid-pulls-"))
            weakref.finalize(self, shutil.rmtree, self._own_folder, ignore_errors=True)
        folder = self._own_folder if socket is None else socket.parent / "pulls"
        assert folder is not None
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _path(self, pull_id: str) -> Path:
        path = self._folder() / f"{pull_id}{EVENTS}"
        if not _ID.fullmatch(pull_id) or not path.is_file():
            raise NotFound(f"no model is fetched under the id {pull_id[:64]}")
        return path


def _allows(pattern: str, name: HubName) -> bool:
    """Whether a pattern is one of a name: `*` of all on hubs; others of one hub, at its main revision.

    Addresses need patterns of addresses.  No `*` reaches from the host into the path, or from ORG/NAME into
    the tag.
    """
    if name.hub == URL:
        return pattern.startswith("http") and _matches(str(name), pattern, "/", num_splits=3)
    if pattern == ALL:
        return True
    hub = next((PREFIXES[prefix] for prefix in PREFIXES if pattern.startswith(prefix)), HUGGING_FACE)
    if hub != name.hub or name.revision not in (None, "main", "master"):
        return False
    plain = next((pattern.removeprefix(prefix) for prefix in PREFIXES if pattern.startswith(prefix)), pattern)
    return _matches(str(name) if ":" in plain else name.repo, plain, ":", num_splits=1)


def _matches(text: str, pattern: str, separator: str, num_splits: int) -> bool:
    """Whether each part of a text matches that of a pattern; the last part may hold more separators."""
    parts, patterns = text.split(separator, num_splits), pattern.split(separator, num_splits)
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _state(path: Path) -> PullState:
    was_running = _is_running(path)
    first, *lines = path.read_bytes().splitlines()
    name, served_as = msgspec.json.decode(first, type=tuple[str, str])
    last = msgspec.json.decode(lines[-1], type=PullEvent) if lines else PullEvent(RESOLVING)
    if not was_running and last.status not in ENDS:
        last = DIED
    return PullState(path.name.removesuffix(EVENTS), name, served_as, last)


def _new_events(file: BinaryIO) -> Iterator[PullEvent]:
    """The events that were added to a file since it was read."""
    while (line := file.readline()).endswith(b"\n"):
        yield msgspec.json.decode(line, type=PullEvent)
    file.seek(-len(line), os.SEEK_CUR)


def _is_running(path: Path) -> bool:
    """Whether a process holds the file of a pull."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False
