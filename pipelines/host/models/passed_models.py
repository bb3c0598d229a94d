"""Which models have passed their first run: an empty file for each in the cache folder, and the shipped ones.

CACHE/passed/NAME-1f0c…       by the content of the model's files, the device, and the libraries' versions
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipelines.base.cache_folder import default_cache
from pipelines.base.digests import digest
from pipelines.inference.backends.cpu_kernels import digests as kernel_digests
from pipelines.inference.backends.registry import libraries

log = logging.getLogger("braid.host")

LIBRARIES = (*libraries(), "tokenizers", "llguidance", "jinja2", "pillow", "av")
"""Packages that open files of models, in the engine host and in workers."""
WHOLE_BYTES = 16 << 20
"""Files up to this size are compared by their content, longer ones by size and time."""
DOCUMENTS = ".md"
SHIPPED = Path(__file__).with_name("shipped.txt")
"""The digests and names of the models of the repository's model_repo, which its tests run."""


class PassedModels:
    """Remembers on disk, for every later start.  A cache folder that cannot be written to is not used."""

    def __init__(self, cache: Path | None = None) -> None:
        """`cache`: None is the user's own folder."""
        self._folder = (cache or default_cache()) / "passed"

    def holds(self, name: str, state: str) -> bool:
        """Whether the model `name` has passed with the files of the digest `state`."""
        return state in shipped() or os.path.exists(self._entry(name, state))  # never raises

    def add(self, name: str, state: str) -> None:
        """From now on it has.  Never raises."""
        entry = self._entry(name, state)
        try:
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            entry.touch()
        except OSError as error:
            log.warning(
                "%s: each start runs new models first, because this run cannot be noted: %s", entry, error
            )

    def _entry(self, name: str, state: str) -> Path:
        return self._folder / f"{name}-{digest(f'{state} {_libraries()}', num_bytes=12)}"


def folder_digest(model: Path, device: str | None = None) -> str:
    """The digest of all files of a folder but its documents, and of the device that it runs on instead of
    its own.
    """
    hashed = hashlib.blake2b((device or "").encode(), digest_size=12)
    for file in sorted(file for file in model.rglob("*") if file.is_file() and _counts(file)):
        stat = file.stat()
        is_short = stat.st_size <= WHOLE_BYTES
        content = hashlib.blake2b(file.read_bytes()).digest() if is_short else str(stat.st_mtime_ns).encode()
        hashed.update(b"\0%b\0%d\0" % (os.fsencode(file.relative_to(model)), stat.st_size) + content)
    return hashed.hexdigest()


@cache
def shipped() -> frozenset[str]:
    """The words of that file."""
    return frozenset(SHIPPED.read_text().split())


def _counts(file: Path) -> bool:
    return file.suffix != DOCUMENTS and not file.name.startswith(".")


def _libraries() -> str:
    """The versions of all of them; models are run once more with CPU kernels that are new."""
    return " ".join(f"{name} {_version(name)}" for name in LIBRARIES) + f" {kernel_digests()}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
