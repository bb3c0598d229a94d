"""The folder of a model's adapters, as its graph names it: what is in it is no part of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import normpath
from typing import Any

from graphs.read import read

KEY = "adapters"
"""The setting of a line that runs a model, and its default folder."""
LINES = ("model", "encoder")
"""The types of lines that have it."""


def adapters_folder(model: Path, graph: str) -> Path | None:
    """Where the adapters of the model in the folder `model` are; None where its graph has no such line."""
    if KEY not in graph:
        return None
    setting = next(_settings(read(graph).data or {}), None)
    folder = setting.get("folder", KEY) if setting is not None else None
    return model / normpath(folder) if isinstance(folder, str) else None


def _settings(value: Any) -> Iterator[Mapping[str, Any]]:
    """The settings of all lines that have some, at any depth."""
    if not isinstance(value, Mapping):
        return
    if value.get("type") in LINES and isinstance(value.get(KEY), Mapping):
        yield value[KEY]
    for each in value.values():
        yield from _settings(each)
