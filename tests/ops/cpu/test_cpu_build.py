"""Compiling the kernels: flags of each source, one object for all libraries, what a note says, errors."""

from __future__ import annotations

import ctypes
import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from ops.cpu.build import (
    HERE,
    Builder,
    CompileError,
    digest,
    find_compiler,
    note_of,
    operators,
    release,
    sources_digest,
)

PLAIN = '#ifdef __AVX2__\n#error "too much"\n#endif\nextern "C" int plain() { return 1; }\n'
AVX2 = '#ifndef __AVX2__\n#error "too little"\n#endif\nextern "C" int wide() { return 2; }\n'
OPERATOR = 'extern "C" int plain();\nextern "C" int operate() { return plain() + 10; }\n'

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture
def folder(tmp_path):
    """Sources that are compiled in a moment."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "plain.cpp").write_text(PLAIN)
    (sources / "kernel_avx2.cpp").write_text(AVX2)
    (sources / "onnxruntime_operator.cpp").write_text(OPERATOR)
    return sources


@pytest.fixture
def builder(folder, tmp_path):
    return Builder(scratch(tmp_path), find_compiler(), folder)


def scratch(tmp_path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_each_source_gets_the_instructions_that_its_name_says(builder, tmp_path):
    library = ctypes.CDLL(str(builder.library(None, tmp_path)))
    assert (library.plain(), library.wide()) == (1, 2)
    assert not hasattr(library, "operate")


def test_sources_of_other_processors_are_left_out(builder, folder, tmp_path, monkeypatch):
    (folder / "kernel_neon.cpp").write_text('#error "not for this processor"')
    builder.library(None, tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(CompileError, match="march"):
        builder.library(None, tmp_path)


def test_the_operator_of_an_engine_is_linked_to_the_same_objects(builder, tmp_path):
    builder.library(None, tmp_path)
    times = {each.name: each.stat().st_mtime_ns for each in builder.scratch.iterdir()}
    assert ctypes.CDLL(str(builder.library("onnxruntime", tmp_path))).operate() == 11
    after = {each.name: each.stat().st_mtime_ns for each in builder.scratch.iterdir()}
    assert after.items() >= times.items()
    assert after.keys() - times.keys() == {"onnxruntime_operator.o"}


def test_a_note_says_what_a_library_is_and_was_made_from(builder, folder, tmp_path):
    library = builder.library(None, tmp_path)
    note = json.loads(note_of(library).read_text())
    assert note["digest"] == digest(library.read_bytes())
    assert note["sources"] == sources_digest(folder)
    assert re.search(r"\d+\.\d+", note["compiler"])
    (folder / "kernel_avx2.cpp").write_text(AVX2 + " ")
    assert note["sources"] != sources_digest(folder)


def test_what_the_compiler_says_is_in_the_error(builder, folder, tmp_path):
    (folder / "plain.cpp").write_text('#error "as it is"')
    with pytest.raises(CompileError, match="as it is"):
        builder.library(None, tmp_path)


def test_a_compiler_that_cannot_run_is_an_error(folder, tmp_path):
    with pytest.raises(CompileError, match="gone"):
        Builder(scratch(tmp_path), str(tmp_path / "gone"), folder).library(None, tmp_path)


def test_cxx_names_the_compiler(monkeypatch, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    monkeypatch.setenv("CXX", str(mine))
    assert find_compiler() == str(mine)
    monkeypatch.setenv("CXX", str(tmp_path / "gone"))
    assert find_compiler() is None


def test_engines_have_a_release_and_operators_are_found(folder):
    assert re.match(r"\d{4}\.\d+", release("openvino"))
    assert release("onnxruntime") == release(None) == ""
    assert operators(folder) == ["onnxruntime"]


def test_a_wheel_of_the_sources_has_the_same_digest(tmp_path):
    shutil.copytree(HERE, tmp_path / "cpu", ignore=shutil.ignore_patterns("__pycache__"))
    assert sources_digest(tmp_path / "cpu") == sources_digest()
