"""The rooms of the suite, their budgets, and how files are distributed over processes."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from documents import ROOT
from every_case import every_case
from suite_schedule import FIRST, TOGETHER, unit_of
from suite_times import BUDGETS_S, room_of

LARGE = re.compile(
    r"^(?:import|from) (?:torch|transformers|sentence_transformers|optimum|anthropic)\b", re.MULTILINE
)
"""Packages whose import takes seconds, where it is not in a function."""
ROW = re.compile(r"^\| `(tests[\w/]*)` \|.*\| (\d+) \|$", re.MULTILINE)


def test_the_documented_budgets_are_those_of_the_suite():
    page = (ROOT / "docs" / "contributing.md").read_text()
    assert {room: int(seconds) for room, seconds in ROW.findall(page)} == BUDGETS_S


@every_case("folder", [*BUDGETS_S, *TOGETHER, *FIRST])
def test_rooms_and_units_are_there(folder):
    assert (ROOT / folder).exists()


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("tests/test_borders.py", "tests"),
        ("tests/server/apis/pooling/test_rerank.py", "tests/server"),
        ("tests/pipelines/host/test_calls.py", "tests/pipelines/host"),
        ("tests/pipelines/inference/engine/beam/test_beams.py", "tests/pipelines/inference/engine"),
    ],
)
def test_a_test_counts_for_the_innermost_room(file, room):
    assert room_of(f"{file}::test_x[a/b::c]") == room


def test_a_file_or_a_folder_runs_whole_in_one_process():
    assert unit_of("tests/e2e/test_demo_model.py::test_x[1]") == "tests/e2e/"
    assert unit_of("tests/e2e/test_abuse.py::test_x") == "tests/e2e/test_abuse.py"
    assert unit_of("tests/clients/test_clients.py::test_x") == "tests/e2e/"
    assert unit_of("tests/server/test_cli.py::test_x[a::b]") == "tests/server/test_cli.py"


def test_files_of_tests_have_names_of_their_own():
    """pytest imports them by these names, and reads no second file of a name."""
    names = Counter(each.name for each in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_of_tests_imports_a_large_package():
    """Each process of a run reads every file: `Later` imports what a test needs when the test runs."""
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "tests").rglob("conftest.py")]
    assert len(files) > 500
    assert [str(each.relative_to(ROOT)) for each in files if LARGE.search(each.read_text())] == []
