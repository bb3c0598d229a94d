from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import toys

from graphs.check import Graph, GraphError, check


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with the files that toys.CHAT names."""
    for name in toys.FILES:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return tmp_path


@pytest.fixture
def problems(folder: Path) -> Callable[[str], list[str]]:
    """The problems that the checker finds in a text, without the file name; [] for a valid graph."""

    def problems_of(text: str) -> list[str]:
        try:
            check(text, toys.NODE_TYPES, toys.TASKS, folder)
        except GraphError as error:
            return [str(problem).removeprefix("graph.yaml:") for problem in error.problems]
        return []

    return problems_of


@pytest.fixture
def chat(folder: Path) -> Graph:
    return check(toys.CHAT, toys.NODE_TYPES, toys.TASKS, folder)
