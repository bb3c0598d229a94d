"""What engines made of models before, stored on disk; bounded, and each entry is checked when it is read.

CACHE/prepared/NAME-1f0c…/    one folder for each entry, named by all that it was made from
├── facts.json                what its maker noted, and length and digest of the other files
└── model.xml …               those files
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.base.cache_folder import appearing, default_cache, is_unfinished, remove_left, unfinished
from pipelines.base.digests import digest

log = logging.getLogger(__name__)

FOLDER, FACTS = "prepared", "facts.json"


class Entry(NamedTuple):
    """The folder of an entry whose files are whole, and the facts of its maker."""

    folder: Path
    facts: dict[str, Any]


@dataclass(frozen=True)
class PreparedModels:
    """Entries of at most `max_bytes` in all; those that were used least recently are removed first.

    `cache`: None is the user's own folder.  From a folder that cannot be written to entries are read.
    """

    max_bytes: int
    cache: Path | None = None

    @property
    def folder(self) -> Path:
        return (self.cache or default_cache()) / FOLDER

    def read(self, name: str) -> Entry | None:
        """The entry `name`, if there is one; one that is torn is removed.  Never raises OSError."""
        folder = self.folder / name
        if not os.path.isdir(folder):  # unlike Path.is_dir it never raises
            return None
        try:
            facts = _checked(folder)
        except (OSError, ValueError) as error:
            self.remove(name, f"is torn: {error}; it is made again")
            return None
        with suppress(OSError):  # read-only, or another user's
            os.utime(folder)
        return Entry(folder, facts)

    def store(self, name: str, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        """Keep an entry, which appears whole or not at all.  Never raises OSError."""
        checks = {file: [len(content), digest(content)] for file, content in files.items()}
        text = json.dumps({"facts": facts, "files": checks})
        contents = {**files, FACTS: f"{digest(text.encode())}\n{text}".encode()}
        num_bytes = sum(map(len, contents.values()))
        if num_bytes > self.max_bytes:
            log.debug("%s takes %d bytes, more than all prepared models may", name, num_bytes)
            return
        try:
            with appearing(self.folder / name) as scratch:
                for file, content in contents.items():
                    (scratch / file).write_bytes(content)
            self._sweep()
        except OSError as error:
            log.warning("%s cannot be stored, so each start prepares it: %s", self.folder / name, error)

    @contextmanager
    def scratch(self, num_bytes: int) -> Iterator[Path | None]:
        """A folder for files of this size that are gone after the block; None where they have no place."""
        with ExitStack() as stack:
            folder = None
            try:
                folder = stack.enter_context(unfinished(self.folder))
                if shutil.disk_usage(folder).free < num_bytes:
                    raise OSError(f"{num_bytes >> 20} MB are not free")
            except OSError as error:
                log.warning(
                    "%s cannot be written to, so each start prepares its models: %s", self.folder, error
                )
                folder = None
            yield folder

    def remove(self, name: str, why: str) -> None:
        """Remove an entry that cannot be used."""
        log.warning("%s %s", self.folder / name, why)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what is too much, and what processes that were killed have left.

        A process that has the files of a removed entry open keeps them.
        """
        remove_left(self.folder.iterdir())
        entries = [
            (entry.stat().st_mtime_ns, _size(entry), entry)
            for entry in self.folder.iterdir()
            if not is_unfinished(entry)
        ]
        num_bytes = 0
        for _, size, entry in sorted(entries, reverse=True):
            num_bytes += size
            if num_bytes > self.max_bytes:
                shutil.rmtree(entry, ignore_errors=True)


def _checked(folder: Path) -> dict[str, Any]:
    """The facts of an entry.  Raises ValueError where a file is not as it was written, and OSError."""
    expected, _, text = (folder / FACTS).read_text().partition("\n")
    if expected != digest(text.encode()):
        raise ValueError(f"{FACTS} has changed")
    read = json.loads(text)
    for file, (size, expected) in read["files"].items():
        if (folder / file).stat().st_size != size or digest((folder / file).read_bytes()) != expected:
            raise ValueError(f"{file} has changed")
    facts: dict[str, Any] = read["facts"]
    return facts


def _size(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.iterdir())
