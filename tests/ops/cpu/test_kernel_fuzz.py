"""Random formats, sizes and numbers, with pages behind each array that may not be touched, and sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_library import compiled, kernel_library

from ops.cpu.build import ARM, FLAGS, HERE, X86, find_compiler

PROGRAMS = [Path(__file__).with_name(f"fuzz_{kind}.cpp") for kind in ("kernels", "recurrent")]
SANITIZED = [Path(__file__).with_name(f"sanitized_{kind}.cpp") for kind in ("avx2", "recurrent_avx2")]
SANITIZERS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARM_COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
DEADLINE_S = 900


def compiler():
    found = find_compiler()
    return found or pytest.skip("no C++ compiler")


def run(*command):
    """What a program writes; it fails with what a sanitizer says."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def linked(folder, source, *flags):
    """A program of random cases with the library of the kernels."""
    library, program = compiled(compiler(), *flags), folder / source.stem
    own = ("-std=c++17", *(flags or ("-O1",)), f"-I{HERE}", f"-Wl,-rpath,{library.parent}")
    run(compiler(), *own, source, library, "-o", program)
    return program


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_no_array_is_read_or_written_beyond_its_end_and_instruction_sets_agree(tmp_path, program):
    assert run(linked(tmp_path, program), 1, 300).startswith("300 cases ")


@pytest.mark.breadth
@pytest.mark.parametrize("source", SANITIZED, ids=lambda path: path.stem)
def test_sanitizers_find_nothing_in_one_instruction_set(tmp_path, source):
    if not kernel_library().bl_isa().startswith(b"avx"):
        pytest.skip("a processor without AVX2")
    run(compiler(), *FLAGS, *SANITIZERS, *X86["avx2"], f"-I{HERE}", source, "-o", tmp_path / "program")
    assert run(tmp_path / "program", 1, 100).startswith("100 cases ")


@pytest.mark.breadth
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_sanitizers_find_nothing(tmp_path, source):
    program = linked(tmp_path, source, *SANITIZERS)
    for seed in (1, 2, 3):
        assert run(program, seed, 300).startswith("300 cases ")


@pytest.mark.breadth
@pytest.mark.skipif(not (shutil.which(ARM_COMPILER) and shutil.which(EMULATOR)), reason="no emulator of ARM")
def test_an_arm_processor_gets_the_same_bits(tmp_path):
    """The digest of all results of the random cases is that of this processor."""
    names = ("block_linear.cpp", "expert_activations.cpp", "kernel_neon.cpp")
    sources, program = [*(HERE / name for name in names), PROGRAMS[0]], tmp_path / "on_arm"
    run(ARM_COMPILER, *FLAGS, *ARM["neon"], "-static", f"-I{HERE}", *sources, "-o", program)
    assert run(EMULATOR, program, 1, 300) == run(linked(tmp_path, PROGRAMS[0]), 1, 300)
