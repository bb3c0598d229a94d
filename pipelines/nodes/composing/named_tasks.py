"""The task that a line needs of the graph that it names, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable

from graphs.graph import Graph, SettingError


def task_of(graph: Callable[[str], Graph], name: str, tasks: tuple[str, ...], *setting: str | int) -> str:
    """The task of a named graph, one of `tasks`.  Raises SettingError for another."""
    task = graph(name).task
    if task not in tasks:
        words = " or ".join(f"`{each}`" for each in tasks)
        raise SettingError(f"the task of `{name}` is `{task}`; this line needs one of {words}", *setting)
    return task
