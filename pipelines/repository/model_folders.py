"""Finds the models of a repository: names, versions and changes, from names and dates of files.

model_repo/
├── braid-demo/graph.yaml          a model
├── qwen3/1/graph.yaml             versions are integer folders; the highest serves
│   └── 2/graph.yaml
├── OpenVINO/Qwen3-8B-int4-ov/     a name may have several parts; an exported model needs no graph.yaml
├── smollm2/SmolLM2.Q4_1.gguf      a GGUF file has the name of its folder when it is alone there,
├── Qwen3-4B-Q4_K_M.gguf           else its own
└── GLM-4.5-Q4_0-00001-of-00003.gguf   all parts of a file together are one model, GLM-4.5-Q4_0
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphs.errors import GraphError, Problem
from pipelines.gguf.converted_files import converted
from pipelines.gguf.parts import GGUF, is_first, model_name, present_parts
from pipelines.gguf.projector_files import find_projector, is_projector
from pipelines.repository import triton_config
from pipelines.repository.adapters_folder import adapters_folder
from pipelines.repository.exports.export_files import GRAPH_PBTXT, find_export
from pipelines.repository.files.model_versions import VersionPolicy, other_version
from pipelines.repository.files.regular_files import is_regular, read_regular

if TYPE_CHECKING:
    from pipelines.repository.ovms.servable import Servable

CONFIG_SUFFIX = ".json"
GRAPH_FILE = "graph.yaml"
SETTINGS_SUFFIXES = frozenset({".json", ".jinja", ".pbtxt", ".txt", ".yaml"})
MAX_NAME_PARTS = 3
FIRST_VERSION, MAX_DIGITS = 1, 18
"""The most digits of a version: one of 18 fits in the 64 bits that protocols have for it."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One version of one model: a folder, or a GGUF file.  `fingerprint` changes when any of its files does.

    `graph`, when given, is the text of the graph, read before: the file is not read again.  `cache` is where
    GGUF files are converted; None is the user's own folder.  `device` is what all models run on instead of
    their own.  Models of one `group` are loaded together.  `servable` is what a config.json says of it.
    `problem` says why the folder could not be looked into: it is not served, and no other is troubled by it.
    """

    name: str
    version: int
    path: Path
    fingerprint: str
    graph: str | None = None
    cache: Path | None = None
    device: str | None = None
    group: str | None = None
    servable: Servable | None = None
    problem: str | None = None

    @property
    def source(self) -> str:
        """The origin of the graph, for messages: its file, or the exported folder that it is made from."""
        if self.servable is not None:
            return self.servable.graph.name if self.servable.graph else "config.json"
        files = (name for name in (GRAPH_FILE, GRAPH_PBTXT) if (self.path / name).exists())
        return next(files, f"{self.path.name} (no {GRAPH_FILE})")

    @property
    def is_gguf(self) -> bool:
        """Whether the model is a GGUF file, which `opened` converts."""
        return _is_gguf(self.path)

    def graph_text(self) -> str:
        """The text of the graph: that of graph.yaml, or what `braid new-graph` would write.

        Raises GraphError where that would refuse the folder; OSError and UnicodeDecodeError.
        """
        if self.problem is not None:
            raise GraphError([Problem(1, self.problem, self.name)])
        if self.graph is not None:
            return self.graph
        if self.servable is not None:
            return self.servable.graph_text(self.device)
        if os.path.lexists(file := self.path / GRAPH_FILE):
            return read_regular(file)
        return self._made_graph()

    def _made_graph(self) -> str:
        """The text of the graph of a folder without graph.yaml.  Raises as `graph_text`."""
        from pipelines.repository.new_graph import new_graph, recognise
        from pipelines.repository.ovms import graph_file

        if (file := self.path / GRAPH_PBTXT).exists():
            return graph_file.graph_text(file, f"{self.name}/{GRAPH_PBTXT}", self.device)
        config = triton_config.find_config(self.path)
        if config is not None and recognise(self.path) is None:
            raise GraphError([triton_config.refusal(config, self.name)])
        try:
            return (triton_config.note(config) if config else "") + new_graph(self.path)
        except ValueError as error:
            raise GraphError([Problem(1, str(error), f"{self.name} (no {GRAPH_FILE})")]) from error

    def opened(self) -> ModelFolder:
        """The model as a folder with the files that its graph names: a GGUF file is converted.

        Raises GraphError where it cannot be served.
        """
        if self.problem is not None or not self.is_gguf:
            return self
        try:
            return replace(self, path=converted(self.path, self.cache, find_projector(self.path)))
        except ValueError as error:
            raise GraphError([Problem(1, str(error), f"{self.name} (no {GRAPH_FILE})")]) from error

    def refreshed(self) -> ModelFolder:
        """The folder with the fingerprint that it has now."""
        return self if self.problem else replace(self, fingerprint=fingerprint(self.path, self.servable))

    def files(self) -> Iterator[Path]:
        """Every file that belongs to the model."""
        return iter(()) if self.problem else files_of(self.path, self.servable)

    def no_files(self) -> list[Path]:
        """What has the name of a file with settings and is none: a folder, a FIFO, a link to nowhere."""
        found = _entries(self.path, self.servable)
        return [path for path in found if path.suffix in SETTINGS_SUFFIXES and not is_regular(path)]

    @property
    def adapters_folder(self) -> Path | None:
        """Where its adapters are, which come and go without the model; None where its graph has none."""
        return None if self.servable or self.problem else _adapters_folder(self.path)

    @property
    def is_incomplete(self) -> bool:
        """Whether its place still exists although a scan found no model in it."""
        return self.servable is None and self.home.is_dir()

    @property
    def home(self) -> Path:
        """The folder of all versions; where there are none, the model's own folder or file."""
        last = self.name.rpartition("/")[2]
        places = (self.path, self.path.parent, self.path.parent.parent)
        return next((place for place in places if last in (place.name, model_name(place))), self.path.parent)


def scan(repository: Path, cache: Path | None = None, device: str | None = None) -> list[ModelFolder]:
    """The newest version of every model, by name; `repository` may be a single model, also a GGUF file, or a
    config.json of OpenVINO Model Server, which says which versions are served.

    Raises FileNotFoundError when there is no such folder or file, ValueError for an invalid config.json.
    """
    return [replace(model, cache=cache, device=device) for model in _scan(repository)]


def _scan(repository: Path) -> list[ModelFolder]:
    if repository.suffix == CONFIG_SUFFIX:
        from pipelines.repository.ovms.config_file import read_config

        return [_listed(servable) for servable in read_config(repository)]
    if _is_gguf(repository):
        return [_gguf_model(present_parts(repository)[0], model_name(repository))]
    if not repository.is_dir():
        raise FileNotFoundError(f"{repository} is neither a folder of models nor a GGUF file")
    if (single := _only_model(repository)) is not None:
        return [single]
    return sorted(_models(repository, ()), key=lambda model: model.name)


def _only_model(folder: Path) -> ModelFolder | None:
    """The model that a folder is itself; None for a folder of models."""
    name = folder.resolve().name
    try:
        return open_folder(folder, name) if is_model(folder) else None
    except Exception as error:  # of files of any kind
        return unreadable(name, folder, error)


def _models(folder: Path, parts: tuple[str, ...]) -> Iterator[ModelFolder]:
    """What is below a folder; what cannot be looked into is a model with a problem."""
    for child in sorted(folder.iterdir()):
        if child.name.startswith((".", "_")):
            continue
        try:
            yield from _models_at(child, parts)
        except Exception as error:  # of files of any kind
            yield unreadable("/".join([*parts, child.name]), child, error)


def _models_at(child: Path, parts: tuple[str, ...]) -> list[ModelFolder]:
    """What an entry of a repository is, or holds.  Raises errors of all kinds."""
    name = [*parts, child.name]
    child.name.encode()  # raises: a name of other bytes cannot be sent
    if child.is_symlink() and not child.exists():
        raise OSError(f"a link that leads nowhere: {os.readlink(child)}")
    if _is_gguf(child):
        return [_gguf_model(child, "/".join([*parts, model_name(child)]))] if is_first(child) else []
    if not child.is_dir():
        return []
    if find_model(child) or versions(child) or (child / triton_config.FILE).is_file():
        return [open_folder(child, "/".join(name))]
    return list(_models(child, tuple(name))) if len(name) < MAX_NAME_PARTS else []


def unreadable(name: str, path: Path, error: Exception) -> ModelFolder:
    """The model of a name that could not be looked into."""
    what = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    problem = f"cannot be looked into: {what}"
    safe_name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return ModelFolder(safe_name, FIRST_VERSION, path, problem, problem=problem)


def open_folder(folder: Path, name: str) -> ModelFolder:
    """The model in `folder`: its newest version when it has versions."""
    numbered = versions(folder) or {FIRST_VERSION: find_model(folder) or folder}
    return open_versions(numbered, name)[0]


def open_versions(
    numbered: Mapping[int, Path], name: str, policy: VersionPolicy | None = None
) -> list[ModelFolder]:
    """The versions of a model that are served, the newest first: it has the model's name."""
    chosen = (policy or VersionPolicy()).choose(numbered)
    return [
        ModelFolder(other_version(name, number) if place else name, number, path, fingerprint(path))
        for place, number in enumerate(chosen)
        for path in [numbered[number]]
    ]


def is_model(folder: Path) -> bool:
    """Whether a folder itself holds a model with a graph, or one that a graph is written for."""
    if os.path.lexists(folder / GRAPH_FILE):
        return True
    from pipelines.repository.new_graph import recognise

    return recognise(folder) is not None or find_export(folder) is not None


def find_model(folder: Path) -> Path | None:
    """What a folder serves: itself, or its only GGUF file; None when it holds neither."""
    if is_model(folder):
        return folder
    files = [child for child in folder.iterdir() if _is_gguf(child) and is_first(child)]
    return files[0] if len(files) == 1 else None


def _is_gguf(path: Path) -> bool:
    return path.suffix.lower() == GGUF and not is_projector(path) and is_regular(path)


def _gguf_model(file: Path, name: str) -> ModelFolder:
    return ModelFolder(name, FIRST_VERSION, file, fingerprint(file))


def versions(folder: Path) -> dict[int, Path]:
    """Version number → folder or GGUF file, for the integer subfolders that hold a model."""
    numbered = (
        child for child in folder.iterdir() if child.name.isdecimal() and len(child.name) <= MAX_DIGITS
    )
    children = (child for child in numbered if child.is_dir())
    return {int(child.name): model for child in children if (model := find_model(child))}


def _listed(servable: Servable) -> ModelFolder:
    now = fingerprint(servable.folder, servable)
    return ModelFolder(
        servable.name, servable.version, servable.folder, now, group=servable.group, servable=servable
    )


def files_of(folder: Path, servable: Servable | None = None) -> Iterator[Path]:
    """Every file in a folder but its adapters', or a file itself; of a servable those that belong to it."""
    return filter(is_regular, _entries(folder, servable))


def _entries(folder: Path, servable: Servable | None) -> Iterator[Path]:
    """All entries of the model's places, also what is no file."""
    found = servable.files() if servable else _own_entries(folder)
    adapters = None if servable else _adapters_folder(folder)
    return (path for path in found if adapters not in path.parents)


def _own_entries(folder: Path) -> list[Path]:
    """What is in a folder; of a GGUF file its parts, and the mmproj file beside it."""
    projector = find_projector(folder) if folder.is_file() else None
    return [*present_parts(folder), *([projector] if projector else []), *folder.rglob("*")]


def _adapters_folder(folder: Path) -> Path | None:
    """Where adapters are that come and go without the model."""
    try:
        return adapters_folder(folder, read_regular(folder / GRAPH_FILE))
    except (OSError, UnicodeDecodeError):
        return None


def fingerprint(folder: Path, servable: Servable | None = None) -> str:
    """Digest of the name, size and time of every file, or of one: equal as long as nothing was changed.

    Of a servable: of what config.json says, and of its own files.
    """
    digest = hashlib.blake2b(repr(servable).encode() if servable else b"", digest_size=16)
    for file in sorted(files_of(folder, servable)):
        try:
            stat = file.stat()
        except OSError:
            continue  # removed meanwhile: the next scan finds another digest
        name = os.fsencode(os.path.relpath(file, folder))
        digest.update(name + f"\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
