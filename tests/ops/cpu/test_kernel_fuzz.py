"""Random formats, sizes and numbers, with pages behind each array that may not be touched, and sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kernel_library import compiled

from ops.cpu.build import HERE, find_compiler

PROGRAM = Path(__file__).with_name("fuzz_kernels.cpp")
SANITIZERS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
DEADLINE_S = 900


def run(folder, seed, cases, *flags):
    """What the program writes; it fails with what a sanitizer says."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler")
    library, program = compiled(compiler, *flags), folder / "fuzz_kernels"
    command = [compiler, "-std=c++17", *(flags or ("-O1",)), f"-I{HERE}", str(PROGRAM), str(library)]
    command += [f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    done = subprocess.run(
        [program, str(seed), str(cases)], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_array_is_read_or_written_beyond_its_end_and_instruction_sets_agree(tmp_path):
    assert run(tmp_path, 1, 300) == "300 cases\n"


@pytest.mark.breadth
def test_sanitizers_find_nothing(tmp_path):
    for seed in (1, 2, 3):
        assert run(tmp_path, seed, 300, *SANITIZERS) == "300 cases\n"
