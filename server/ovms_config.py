"""Writes config.json of OpenVINO Model Server: adds a model, removes one, lists those of a folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.repository.exports.export_files import GRAPH_PBTXT
from pipelines.repository.ovms.config_file import read_config, read_file
from pipelines.repository.ovms.config_schema import ServerConfig
from server.temporary_config import TEMPORARY, remove_temporary

MODELS, GRAPHS = "model_config_list", "mediapipe_config_list"


def write_temporary(name: str, path: Path, options: Mapping[str, Any]) -> Path:
    """A config.json of one model, in a folder that `remove_temporary` removes when the server ends.

    Raises ValueError where the file would not be valid, and leaves nothing behind then.
    """
    config = Path(tempfile.mkdtemp(prefix=TEMPORARY)) / "config.json"
    try:
        add(config, name, path, options)
        read_config(config)
    except ValueError:
        remove_temporary(config)
        raise
    return config


def add(config: Path, name: str, path: Path, options: Mapping[str, Any]) -> None:
    """List a model, in a new file if there is none.

    Raises ValueError where the name is listed, or the file would not be valid; it is unchanged then.
    """
    content = _read(config) if config.exists() else {MODELS: []}
    if name in _names(content):
        raise ValueError(f"{config}: the model {name} is listed already")
    entry = {"name": name, "base_path": str(path), **options}
    _write(config, {**content, MODELS: [*content[MODELS], {"config": entry}]})


def remove(config: Path, name: str) -> None:
    """List a model no more.  Raises ValueError where it is not listed, FileNotFoundError without the file."""
    content = _read(config)
    if name not in _names(content):
        raise ValueError(f"{config}: no model {name} is listed")
    others = {MODELS: [each for each in content[MODELS] if _name(each) != name]}
    if GRAPHS in content:
        others[GRAPHS] = [each for each in content[GRAPHS] if _name(each) != name]
    _write(config, {**content, **others})


def list_models(repository: Path) -> list[str]:
    """The names of the models below a folder: folders with a graph.pbtxt or with folders of versions."""
    return sorted(_found(repository, repository))


def _found(folder: Path, root: Path) -> Iterator[str]:
    children = [
        child for child in sorted(folder.iterdir()) if child.is_dir() and not child.name.startswith(".")
    ]
    if folder != root and (
        (folder / GRAPH_PBTXT).is_file() or any(child.name.isdecimal() for child in children)
    ):
        yield folder.relative_to(root).as_posix()
        return
    for child in children:
        yield from _found(child, root)


def _read(config: Path) -> dict[str, Any]:
    read_file(config, ServerConfig)
    content: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    return content


def _write(config: Path, content: Mapping[str, Any]) -> None:
    """Replace the file in one step, so that a server never reads half of it."""
    new = config.with_name(f".{config.name}.{os.getpid()}.json")
    new.write_text(json.dumps(content, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")
    try:
        read_file(new, ServerConfig)
    except ValueError as error:
        new.unlink()
        raise ValueError(str(error).replace(str(new), str(config))) from None
    new.replace(config)


def _names(content: Mapping[str, Any]) -> list[str]:
    return [_name(each) for each in (*content[MODELS], *content.get(GRAPHS, []))]


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("config", entry)["name"])
