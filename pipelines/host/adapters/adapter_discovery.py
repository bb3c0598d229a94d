"""Looks for the adapters of models: folders as PEFT writes them, below the model or named at the start."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.adapters.adapter_config import CONFIG
from pipelines.adapters.read_adapter import WEIGHTS, adapter_folders, read_adapter
from pipelines.adapters.weights import DIGEST_BYTES, AdapterError, LinearShape
from pipelines.repository.files.regular_files import is_regular
from pipelines.repository.model_folders import ModelFolder
from pipelines.wire.lora_modules import LoraModule

log = logging.getLogger("braid.host")

LINK = "a link leads out of the folder of adapters; put the files themselves there, or name it at the start"


@dataclass(frozen=True)
class AdapterFit:
    """What the adapters of a loaded model must fit."""

    linears: Mapping[str, LinearShape]
    max_rank: int


@dataclass(frozen=True)
class FoundAdapter:
    """An adapter's folder, and the digest of its files.  `problem` says why it cannot be used."""

    name: str
    path: Path
    digest: str
    problem: str = ""


@dataclass(frozen=True)
class AdaptersFound:
    """The adapters of a model are now these; `folder` is where they are, None where its graph has none."""

    model: str
    folder: Path | None
    found: tuple[FoundAdapter, ...]


class AdapterFinder:
    """Belongs to the loader's thread.  A folder is read again only when its files were changed."""

    def __init__(self, modules: Iterable[LoraModule] = ()) -> None:
        """`modules` are named when the server starts."""
        self._modules = list(modules)
        self._known: dict[tuple[str, Path], tuple[str, AdapterFit | None, FoundAdapter]] = {}
        self._adapted: set[str] = set()  # models that had adapters at the last look
        self._unplaced: list[LoraModule] = []

    def look(
        self, models: Collection[ModelFolder], fits: Mapping[str, AdapterFit]
    ) -> Iterator[AdaptersFound]:
        """The adapters of all models that have or had some.  `fits` are those of models that were loaded."""
        folders = {model.name: folder for model in models if (folder := model.adapters_folder) is not None}
        modules = self._placed(folders)
        for name, folder in folders.items():
            yield AdaptersFound(name, folder, tuple(self._all(folder, modules[name], fits.get(name))))
        for name in self._adapted - folders.keys():
            yield AdaptersFound(name, folder=None, found=())
        self._adapted = {*folders}

    def _placed(self, folders: Mapping[str, Path]) -> dict[str, list[LoraModule]]:
        """The named ones of each model; one without a base's name belongs to the only model with adapters."""
        placed: dict[str, list[LoraModule]] = {name: [] for name in folders}
        unplaced: list[LoraModule] = []
        for module in self._modules:
            base = module.base_model_name or (next(iter(folders)) if len(folders) == 1 else "")
            placed.get(base, unplaced).append(module)
        if unplaced != self._unplaced:
            self._unplaced = unplaced
            for module in unplaced:
                log.error("the adapter %s of --lora-modules is not served: %s", module.name, _why(folders))
        return placed

    def _all(
        self, folder: Path, modules: Iterable[LoraModule], fit: AdapterFit | None
    ) -> Iterator[FoundAdapter]:
        named = {module.name: Path(module.path).expanduser() for module in modules}
        try:
            below = {adapter.name: adapter for adapter in adapter_folders(folder)}
        except OSError as error:
            log.error("cannot look for adapters in %s: %s", folder, error)
            below = {}
        for name, path in sorted((below | named).items()):
            yield self._one(name, path, fit, None if name in named else folder)

    def _one(self, name: str, path: Path, fit: AdapterFit | None, home: Path | None) -> FoundAdapter:
        stamp = _stamp(path)
        known = self._known.get((name, path))
        if known is not None and known[:2] == (stamp, fit):
            return known[2]
        found = found_adapter(name, path, fit, home)
        if found.problem:
            log.error("the adapter %s cannot be used: %s", name, found.problem)
        self._known[name, path] = (stamp, fit, found)
        return found


def found_adapter(name: str, path: Path, fit: AdapterFit | None, home: Path | None = None) -> FoundAdapter:
    """The adapter in a folder, which is read once where it is known what it must fit.

    Its files are in the folder `home`, if that is given, and not where a link leads.
    """
    try:
        if home is not None and not all(_is_below(home, path / name) for name in ("", CONFIG, WEIGHTS)):
            raise AdapterError(LINK)
        if missing := [name for name in (CONFIG, WEIGHTS) if not is_regular(path / name)]:
            raise AdapterError(f"{missing[0]} is missing, or no file")
        if fit is not None:
            read_adapter(path, fit.linears, fit.max_rank)
        return FoundAdapter(name, path, adapter_digest(path))
    except Exception as error:  # of files of any kind
        return FoundAdapter(name, path, "", os.fsencode(str(error)).decode("utf-8", "backslashreplace"))


def _is_below(home: Path, path: Path) -> bool:
    return home.resolve() in path.resolve().parents


def adapter_digest(folder: Path) -> str:
    """The digest of the two files of an adapter.  Raises OSError."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in (CONFIG, WEIGHTS):
        with (folder / name).open("rb") as file:
            found.update(hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest())
    return found.hexdigest()


def _stamp(folder: Path) -> str:
    """Equal as long as no file of an adapter was changed."""
    stats = [file.stat() for name in (CONFIG, WEIGHTS) if is_regular(file := folder / name)]
    return repr([(each.st_size, each.st_mtime_ns, each.st_ino) for each in stats])


def _why(folders: Mapping[str, Path]) -> str:
    if not folders:
        return "no model's graph has an `adapters` setting"
    return f"name its base_model_name, one of {', '.join(sorted(folders))}"
