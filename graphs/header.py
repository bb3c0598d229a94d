"""Reads the top of a graph file: version, task, description, and how long the model stays loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from graphs.errors import hint, nearest
from graphs.graph import Task, TaskContract
from graphs.keep_alive import keep_alive_s
from graphs.read import GraphDocument

VERSION = 1
KEYS = ("version", "task", "description", "pinned", "keep_alive", "nodes")


def read_header(document: GraphDocument, tasks: Mapping[str, Task]) -> Task:
    """The task that the file serves; one with any request and reply where the file names no valid one.

    Problems of all top keys, except the value of `nodes`, are recorded in the document.
    """
    data = document.data or {}
    for key in data:
        if key not in KEYS:
            document.add((key,), f"unknown key `{key}`{hint(key, KEYS, 'keys')}")
    _check_version(document, data)
    if not isinstance(data.get("description", ""), str):
        document.add(("description",), "`description` must be text")
    _check_stay(document, data)
    return _task(document, data, tasks)


def _check_stay(document: GraphDocument, data: Mapping[str, Any]) -> None:
    if not isinstance(data.get("pinned", False), bool):
        document.add(("pinned",), "`pinned` must be true or false")
    try:
        keep_alive_s(data.get("keep_alive", 0))
    except ValueError as error:
        document.add(("keep_alive",), f"`keep_alive` {error}")


def misspelt(key: str, data: Collection[str]) -> bool:
    """Whether `key` is absent because another key is a misspelling of it, so that one problem is enough."""
    return key not in data and any(nearest(each, KEYS) == key for each in data if each not in KEYS)


def _check_version(document: GraphDocument, data: Mapping[str, Any]) -> None:
    version = data.get("version")
    if (version == VERSION and not isinstance(version, bool)) or misspelt("version", data):
        return
    wrong = f"version {version!r} is unknown" if "version" in data else "no version is given"
    document.add(("version",), f"{wrong}; write `version: {VERSION}`")


def _task(document: GraphDocument, data: Mapping[str, Any], tasks: Mapping[str, Task]) -> Task:
    name = data.get("task")
    if isinstance(name, str) and name in tasks:
        return tasks[name]
    if "task" in data:
        document.add(("task",), f"unknown task `{name}`{hint(str(name), tasks, 'tasks')}")
    elif not misspelt("task", data):
        document.add(1, f"no task is given; write `task: NAME` with one of: {', '.join(tasks)}")
    return TaskContract(Any, Any)
