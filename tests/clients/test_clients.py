"""Programs that use clients of other projects, run unchanged against a real server with the demo models."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable

import pytest
from client_programs import COMMON, FOLDER, PROGRAMS, Program

TIMEOUT_S = 400
CASE = re.compile(r"^(passed|failed) ", re.MULTILINE)
"""A line of a program's output for each of its cases."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        every = metafunc.config.getoption("--every-client", default=False)
        chosen = [program for program in PROGRAMS if every or program.environment == COMMON]
        metafunc.parametrize("program", chosen, ids=lambda program: program.name)


def test_a_program_runs(
    program: Program,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    if not program.installed():
        assert not request.config.getoption("--every-client", default=False), "it was not installed"
        pytest.skip("the clients are not installed: `make test` installs them")
    addresses = request.getfixturevalue(program.served)
    begin = time.monotonic()
    run = subprocess.run(
        program.command(addresses),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=FOLDER,
        env=program.variables(),
    )
    results = CASE.findall(run.stdout)
    cases = (results.count("passed"), results.count("failed"))
    record_property("client", (program.name, program.version(), *cases, time.monotonic() - begin))
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-6000:]}"
    assert results.count("passed") == len(results) > 0, run.stdout


def test_each_program_is_in_the_table() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".cjs")}
    assert files - {"cases.py", "cases.cjs", "tensor_elements.py"} == {program.file for program in PROGRAMS}
