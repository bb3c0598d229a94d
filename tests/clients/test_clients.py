"""Programs that use clients of other projects, run unchanged against a real server with the demo models."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from client_programs import COMMON, FOLDER, PROGRAMS, VISION, Program
from running import TOGETHER, Outcome

CASE = re.compile(r"^(passed|failed) ", re.MULTILINE)
"""A line of a program's output for each of its cases."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        every = metafunc.config.getoption("--every-client", default=False)
        chosen = [program for program in PROGRAMS if every or program.environment == COMMON]
        broader = [each for each in chosen if each.served == VISION]
        marked = [
            pytest.param(each, marks=pytest.mark.breadth) if each in broader else each for each in chosen
        ]
        metafunc.parametrize("program", marked, ids=lambda program: program.name)


@pytest.fixture(scope="module")
def ended() -> Callable[[Program, str], Outcome]:
    """`ended(program, addresses)` → its outcome; a group of programs runs once."""
    outcomes: dict[Path, Outcome] = {}

    def run(program: Program, addresses: str) -> Outcome:
        if program.path not in outcomes:
            outcomes.update(program.run_with_its_group(addresses))
        return outcomes[program.path]

    return run


def test_a_program_runs(
    program: Program,
    ended: Callable[[Program, str], Outcome],
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    if not program.installed():
        assert not request.config.getoption("--every-client", default=False), "it was not installed"
        pytest.skip("it is not installed: `make test` and `make clients` install clients")
    outcome = ended(program, request.getfixturevalue(program.served))
    results = CASE.findall(outcome.output)
    cases = (results.count("passed"), results.count("failed"))
    record_property("client", (program.name, program.version(), *cases, outcome.seconds))
    assert outcome.passed, f"{outcome.output}\n{outcome.errors}"
    assert results.count("passed") == len(results) > 0, outcome.output


def test_each_program_is_in_the_table() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".cjs")}
    shared = {
        "cases.py",
        "cases.cjs",
        "agent_session.cjs",
        "coding_agents.py",
        "gym_models.py",
        "images.py",
        "tensor_elements.py",
        TOGETHER.name,
    }
    shared |= {"mistral_fim.py"}  # tests/e2e/test_gaps.py runs it
    assert files - shared == {program.file for program in PROGRAMS}
