"""The parsers of tool calls and reasoning for a chat template, found once for each by rendering it.

A template is a stranger's program: it is rendered in a process of its own, with bounded time and memory.
What was found is stored in the user's cache folder, by the digest of the template and of the code.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipelines.base.bounded_processes import BoundedProcess, OutOfBounds, OutOfTime
from pipelines.base.cache_folder import default_cache
from pipelines.base.code_digest import code_digest
from pipelines.base.digests import digest

MODULE = "pipelines.nodes.text.parser_search.search"
SEARCHES = (
    MODULE,
    "pipelines.nodes.text.parsers",
    "pipelines.nodes.text.templates",
)
"""Modules that decide what a search finds."""
MAX_MEMORY_BYTES = 768 << 20
"""The most memory of the process: the interpreter takes about 100 MB of it."""
MAX_S = 10.0
"""Processor time of the process, in seconds; with a template of the usual size it takes 0.6."""
NUM_TEMPLATES = 256
"""The number of templates for which what was found is in memory."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Libraries start threads, of which none is needed, and each takes address space."""
SETTINGS = ("reasoning", "tools", "guard")


@dataclass(frozen=True)
class TemplateParsers:
    """The settings of `parse_reply`, without those that have no parser, and notes on why they have none."""

    settings: dict[str, str]
    notes: tuple[str, ...] = ()


@lru_cache(NUM_TEMPLATES)
def find_parsers(template: str, tool_use: str | None = None) -> TemplateParsers:
    """The parsers of a model with this template, and perhaps another for conversations with tools."""
    job = [template, tool_use]
    entry = default_cache() / "parsers" / f"{_key(job)}.json"
    if (found := _stored(entry)) is None:
        found, is_final = _search(job)
        if is_final:
            _store(entry, found)
    settings = {name: found[name] for name in SETTINGS if found.get(name)}
    return TemplateParsers(settings, tuple(found["notes"]))


def _search(job: list[str | None]) -> tuple[dict[str, Any], bool]:
    """What a process finds, and whether the next one would find the same."""
    try:
        process = BoundedProcess(MODULE, MAX_MEMORY_BYTES, ENVIRONMENT)
    except OSError as error:
        return _nothing(str(error)), False
    try:
        parsers: dict[str, Any] = process.outcome(job, MAX_S).value
        return parsers, True
    except OutOfBounds as error:
        return _nothing(f"rendering it failed: {error}"), isinstance(error, OutOfTime)
    except TimeoutError:
        return _nothing("other programs leave no processor time for it"), False
    finally:
        process.kill()


def _nothing(cause: str) -> dict[str, Any]:
    return {"notes": [f"no parser was looked for in the chat template: {cause}"]}


def _stored(entry: Path) -> dict[str, Any] | None:
    """What an earlier search found; None where there was none or its file cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads(entry.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) and isinstance(found.get("notes"), list) else None
    return None


def _store(entry: Path, found: dict[str, Any]) -> None:
    """Write a file that appears whole or not at all; a folder that cannot be written to is not used."""
    with suppress(OSError):
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=entry.parent, delete=False, encoding="utf-8") as scratch:
            json.dump(found, scratch)
        os.replace(scratch.name, entry)


def _key(job: list[str | None]) -> str:
    """The name of what a job finds with this code."""
    return digest(f"{json.dumps(job)}\0{code_digest(*SEARCHES)}", num_bytes=12)
