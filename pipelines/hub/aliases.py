"""Writes further names of models, folders whose graph names another model, and removes fetched models."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from pipelines.hub.base.errors import HubError
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.model_folder import check_above, check_place, new_folder, put_in_place, read_note


def write_alias(repository: Path, name: str, source: str, task: str) -> None:
    """Make `name` a further name of the model `source`, which does `task`.

    Raises HubError for what is no name, or has the place of something else; OSError.
    """
    folder, origin = repository / name, _behind(repository, source)
    graph: dict[str, Any] = {
        "version": 1,
        "task": task,
        "nodes": {"reply": {"type": "graph", "from": "request", "graph": origin}},
    }
    check_local_name(name)
    check_place(folder)
    check_above(folder, repository)
    note = read_note(folder)
    if name in (source, origin) or (note is not None and "alias_of" not in note):
        raise HubError(f"{folder.name} is a model that was fetched: delete it first, or take another name")
    new = new_folder(folder)
    (new / "graph.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    put_in_place(new, folder, {"alias_of": origin, "files": []})


def _behind(repository: Path, name: str) -> str:
    """The model that a further name stands for: names lead to models, not to one another in a circle."""
    note = read_note(repository / name)
    return str(note["alias_of"]) if note is not None and "alias_of" in note else name


def remove_fetched(repository: Path, name: str) -> None:
    """Remove a fetched model, or a further name.  Raises HubError for another folder; OSError."""
    folder = repository / name
    if read_note(folder) is None:
        raise HubError(f"{name} was not fetched by this server: remove its folder by hand")
    shutil.rmtree(folder)
