"""docs/architecture.md has one clause for each folder of the product, and its table of files names files."""

import ast
import re
from pathlib import Path

import pytest
from every_case import every_case

ROOT = Path(__file__).parent.parent
ROOMS = ("deploy", "graphs", "ops", "pipelines", "server", "tools")
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"^\| `([\w/]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
PROCESSES = {"worker", "engine host", "both", "master and worker", "command line", "data"}
IN_ONE_PROCESS = {
    "pipelines/worker": "worker",
    "pipelines/host": "engine host",
    "pipelines/inference": "engine host",
    "server/apis": "worker",
}


def folders():
    """Folders that hold files of the repository, below and including the rooms."""
    return sorted(
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room, *(ROOT / room).rglob("*"))
        if path.is_dir() and path.name != "__pycache__" and any(child.is_file() for child in path.iterdir())
    )


def test_every_folder_has_one_clause_and_none_is_left_over():
    assert sorted(folder for folder, _, _ in ROWS) == folders()


@every_case(("folder", "process", "clause"), ROWS)
def test_a_folder_names_its_process_and_what_it_is_for(folder, process, clause):
    assert process in PROCESSES
    assert 10 < len(clause) < 140


def test_each_package_says_in_its_own_folder_what_it_is_for():
    packages = [path for room in ROOMS[1:5] for path in (ROOT / room).rglob("__init__.py")]
    silent = [path.parent for path in packages if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


@pytest.mark.parametrize(("folder", "process"), IN_ONE_PROCESS.items())
def test_what_is_below_a_folder_of_one_process_runs_there(folder, process):
    assert {where for name, where, _ in ROWS if f"{name}/".startswith(f"{folder}/")} == {process}


def test_the_body_of_an_engine_node_runs_in_the_engine_host():
    assert {where for name, where, _ in ROWS if name.endswith("/body")} == {"engine host"}
