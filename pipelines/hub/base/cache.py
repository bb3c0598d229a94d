"""The cache of the Hugging Face libraries: blobs by content, and snapshots of links to them.

models--ORG--NAME/
├── refs/main                  the commit of a branch
├── blobs/ETAG                 contents, or links to those that several repositories share
├── snapshots/COMMIT/PATH      links to blobs
└── trees/COMMIT.json          the listing of a commit
.locks/models--ORG--NAME/ETAG.lock
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import Corrupt
from pipelines.hub.base.names import MODELSCOPE, URL, HubName
from pipelines.hub.base.remote_files import COMMIT, Listing, RemoteFile, checked

TREE_VERSION = 1
GIT_ID_DIGITS = 40


class RepoCache:
    """The cache of one repository below `root`."""

    def __init__(self, root: Path, repo: str) -> None:
        name = "--".join(["models", *repo.split("/")])
        self.root = root
        self.folder = root / name
        self._locks = root / ".locks" / name

    @classmethod
    def of(cls, name: HubName, environment: HubEnvironment) -> RepoCache:
        """The cache of a model: that of the Hugging Face libraries, or Braid's own of other places."""
        if name.hub == URL:
            return cls(environment.own_cache / URL, name.cache_key)
        if name.hub == MODELSCOPE:
            return cls(environment.own_cache / MODELSCOPE, name.repo)
        return cls(environment.hub_cache, name.repo)

    def blob(self, etag: str) -> Path:
        return self.folder / "blobs" / etag

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def make(self) -> None:
        """Make the folders.  Raises OSError."""
        (self.folder / "blobs").mkdir(parents=True, exist_ok=True)
        self._locks.mkdir(parents=True, exist_ok=True)

    def holds(self, file: RemoteFile) -> bool:
        """Whether the content of a file is there, whole."""
        try:
            return self.blob(file.etag).stat().st_size == file.num_bytes
        except OSError:
            return False

    def link(self, commit: str, file: RemoteFile) -> None:
        """Give a blob its name in a snapshot.  Raises OSError."""
        place = self.snapshot(commit) / file.path
        target = os.path.relpath(self.blob(file.etag), place.parent)
        if place.is_symlink() and os.readlink(place) == target:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f".{os.getpid()}.{file.etag[:16]}.new")
        new.unlink(missing_ok=True)
        try:
            new.symlink_to(target)
        except OSError:  # a file system without links
            shutil.copyfile(self.blob(file.etag), new)
        new.replace(place)

    def read_ref(self, revision: str) -> str | None:
        """The commit of a branch or tag when it was last asked for; a commit is itself."""
        if COMMIT.fullmatch(revision):
            return revision
        try:
            commit = (self.folder / "refs" / revision).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return commit if COMMIT.fullmatch(commit) else None

    def write_ref(self, revision: str, commit: str) -> None:
        """Raises OSError."""
        if revision != commit:
            _write(self.folder / "refs" / revision, commit)

    def write_listing(self, listing: Listing) -> None:
        """Store a listing as newer libraries do.  Raises OSError."""
        files = {file.path: _tree_entry(file) for file in listing.files}
        text = json.dumps({"format_version": TREE_VERSION, "files": files})
        _write(self.folder / "trees" / f"{listing.commit}.json", text)

    def read_listing(self, commit: str) -> Listing | None:
        """The listing of a commit; without one, the files of its snapshot.  None where there are none."""
        try:
            content = json.loads((self.folder / "trees" / f"{commit}.json").read_text(encoding="utf-8"))
            return checked(commit, (_tree_file(path, entry) for path, entry in content["files"].items()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, Corrupt):
            return self.cached_listing(commit)

    def cached_listing(self, commit: str) -> Listing | None:
        """The files of a commit's snapshot whose contents are there; None where there are none."""
        snapshot = self.snapshot(commit)
        files = [
            RemoteFile(
                path.relative_to(snapshot).as_posix(), path.stat().st_size, _etag_of(path), is_hashed=False
            )
            for path in sorted(snapshot.rglob("*"))
            if path.is_file()
        ]
        with suppress(Corrupt):
            return checked(commit, files) if files else None
        return None

    @contextmanager
    def locked(self, etag: str, wait: Callable[[], None]) -> Iterator[None]:
        """The lock of one content, which other libraries take too; `wait` is called until it is free.

        Raises OSError, and what `wait` raises.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._locks / f"{etag}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while not _try_lock(lock):
                wait()
            yield
        finally:
            os.close(lock)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(place: Path, text: str) -> None:
    """Write a small file that appears whole.  Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".", dir=place.parent)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _tree_entry(file: RemoteFile) -> dict[str, Any]:
    if len(file.etag) == GIT_ID_DIGITS:
        return {"size": file.num_bytes, "blob_id": file.etag}
    return {"size": file.num_bytes, "blob_id": file.etag, "lfs_sha256": file.etag, "lfs_size": file.num_bytes}


def _tree_file(path: str, entry: dict[str, Any]) -> RemoteFile:
    return RemoteFile(
        path, int(entry.get("lfs_size", entry["size"])), entry.get("lfs_sha256") or entry["blob_id"]
    )


def _etag_of(path: Path) -> str:
    """The name of the blob that a file of a snapshot is, by its first link; a copy has none."""
    return Path(os.readlink(path)).name if path.is_symlink() else f"copy-{abs(hash(path.name))}"
