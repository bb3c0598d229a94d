"""What a folder asks for before it is loaded: how much memory its model will take, and whether it may leave.

Reads names and sizes of files and the text of the graph; opens no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphs.errors import GraphError
from graphs.keep_alive import keep_alive_s
from graphs.node import LARGEST
from graphs.read import read
from pipelines.host.models.residents import GB, Terms
from pipelines.inference.backends.host_memory import default_cache_bytes
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import WEIGHT_SUFFIXES

OWN_GROWTH = 256 << 20
"""Bytes that the process may grow by during a load without their being the model's: libraries, kernels."""
PERMANENT = "permanent"
"""The group of models that never leave, as in OpenVINO Model Server."""


def terms_of(folder: ModelFolder) -> Terms:
    """Sizes and wishes of a folder; of one whose graph cannot be read, the size of its files."""
    header = _graph(folder)
    caches = sum(_cache_bytes(node) for node in _schedulers(header))
    try:
        keep = keep_alive_s(header["keep_alive"]) if "keep_alive" in header else None
    except ValueError:
        keep = None  # the load says so
    is_permanent = folder.group == PERMANENT
    return Terms(
        file_bytes(folder) + caches,
        pinned=header.get("pinned") is True or is_permanent,
        keep_alive_s=keep,
        group=None if is_permanent else folder.group,
        task=str(header.get("task", "")),
    )


def taken_bytes(folder: ModelFolder, cache_bytes: int, growth: int) -> int:
    """What a loaded model takes: its files and its cache, or what the process grew by, if that is more."""
    return max(file_bytes(folder) + cache_bytes, growth - OWN_GROWTH)


def file_bytes(folder: ModelFolder) -> int:
    """The size of a model's files with weights."""
    return sum(file.stat().st_size for file in folder.files() if file.suffix.lower() in WEIGHT_SUFFIXES)


def _graph(folder: ModelFolder) -> Mapping[str, Any]:
    if folder.is_gguf:
        return {"nodes": {"generated": {"type": "scheduler"}}}
    try:
        return read(folder.graph_text()).data or {}
    except (GraphError, OSError, UnicodeDecodeError):
        return {}


def _schedulers(value: Any) -> Iterator[Mapping[str, Any]]:
    nodes = value.get("nodes") if isinstance(value, Mapping) else None
    for node in nodes.values() if isinstance(nodes, Mapping) else ():
        if isinstance(node, Mapping) and node.get("type") == "scheduler":
            yield node


def _cache_bytes(node: Mapping[str, Any]) -> int:
    """`cache.memory_gb`, or what a cache has without it."""
    cache = node.get("cache")
    memory_gb = cache.get("memory_gb") if isinstance(cache, Mapping) else None
    if isinstance(memory_gb, int | float) and 0 < memory_gb <= LARGEST:
        return int(memory_gb * GB)
    return default_cache_bytes()
