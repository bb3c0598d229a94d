"""Finds the models of a repository folder: names, versions and changes, from names and dates of files.

model_repo/
├── braid-demo/graph.yaml          a model
├── qwen3/1/graph.yaml             versions are integer folders; the highest serves
│   └── 2/graph.yaml
└── OpenVINO/Qwen3-8B-int4-ov/     a name may have several parts; an exported model needs no graph.yaml
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from graphs.errors import GraphError, Problem
from pipelines.repository.new_graph import new_graph, recognise

GRAPH_FILE = "graph.yaml"
MAX_NAME_PARTS = 3
FIRST_VERSION = 1


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One version of one model.  `fingerprint` changes when any of its files does.

    `graph`, when given, is the text of the graph, read before: the file is not read again.
    """

    name: str
    version: int
    path: Path
    fingerprint: str
    graph: str | None = None

    @property
    def source(self) -> str:
        """Where the graph comes from, for messages: the file, or the exported folder it is made from."""
        return GRAPH_FILE if (self.path / GRAPH_FILE).exists() else f"{self.path.name} (no {GRAPH_FILE})"

    def graph_text(self) -> str:
        """The text of the graph: that of graph.yaml, or what `braid new-graph` would write.

        Raises GraphError where that would refuse the folder; OSError and UnicodeDecodeError.
        """
        if self.graph is not None:
            return self.graph
        file = self.path / GRAPH_FILE
        if file.exists():
            return file.read_text()
        try:
            return new_graph(self.path)
        except ValueError as error:
            raise GraphError([Problem(1, str(error), f"{self.name} (no {GRAPH_FILE})")]) from error

    def refreshed(self) -> ModelFolder:
        """The same folder with the fingerprint that it has now."""
        return replace(self, fingerprint=fingerprint(self.path))

    @property
    def home(self) -> Path:
        """The folder of all versions; where there are none, the model's own."""
        return self.path if self.path.name == self.name.rpartition("/")[2] else self.path.parent


def scan(repository: Path) -> list[ModelFolder]:
    """The newest version of every model, by name.  Raises FileNotFoundError when there is no such folder."""
    if not repository.is_dir():
        raise FileNotFoundError(f"{repository} is not a folder of models")
    if is_model(repository):
        return [open_folder(repository, repository.resolve().name)]
    return sorted(_models(repository, ()), key=lambda model: model.name)


def _models(folder: Path, parts: tuple[str, ...]) -> Iterator[ModelFolder]:
    for child in sorted(folder.iterdir()):
        if not child.is_dir() or child.name.startswith((".", "_")):
            continue
        name = (*parts, child.name)
        if is_model(child) or versions(child):
            yield open_folder(child, "/".join(name))
        elif len(name) < MAX_NAME_PARTS:
            yield from _models(child, name)


def open_folder(folder: Path, name: str) -> ModelFolder:
    """The model in `folder`: its newest version when it has versions."""
    numbered = versions(folder)
    version = max(numbered, default=FIRST_VERSION)
    path = numbered.get(version, folder)
    return ModelFolder(name, version, path, fingerprint(path))


def is_model(folder: Path) -> bool:
    return (folder / GRAPH_FILE).is_file() or recognise(folder) is not None


def versions(folder: Path) -> dict[int, Path]:
    """Version number → folder, for the integer subfolders that hold a model."""
    children = (child for child in folder.iterdir() if child.is_dir() and child.name.isdecimal())
    return {int(child.name): child for child in children if is_model(child)}


def fingerprint(folder: Path) -> str:
    """Digest of every file's name, size and time: equal as long as nothing was changed."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue  # removed meanwhile: the next scan finds another digest
        digest.update(f"{file.relative_to(folder)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
