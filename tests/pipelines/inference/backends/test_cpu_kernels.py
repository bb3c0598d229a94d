"""Which library of CPU kernels an engine gets, and why one is not used."""

from __future__ import annotations

import json
import sys

import pytest

from ops.cpu import build
from ops.cpu.build import note_of
from pipelines.inference.backends import cpu_kernels
from pipelines.inference.backends.cpu_kernels import describe, entry_name, kernel_library

NAME = "libbraid_onnxruntime.so"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache, kernels as for users, and an engine with an operator on a processor with AVX2."""
    monkeypatch.setenv("BRAID_KERNELS", "auto")
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cpu_kernels, "runs_here", lambda: True)
    monkeypatch.setattr(cpu_kernels, "operators", lambda: ["onnxruntime"])
    monkeypatch.setattr(cpu_kernels, "_logged", set())
    return tmp_path / "cache"


def write(folder, content=b"a library", **changed):
    """A library with its note."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / NAME
    library.write_bytes(content)
    note = {
        "digest": build.digest(content),
        "sources": build.sources_digest(),
        "release": "",
        "machine": build.platform.machine(),
        "compiler": "g++ 12.2",
    }
    note_of(library).write_text(json.dumps(note | changed))
    return library


def in_cache(compiler="g++ 12.2"):
    return cpu_kernels.folder() / entry_name("onnxruntime", compiler)


def test_an_empty_cache_has_none():
    assert kernel_library("onnxruntime") is None


def test_what_is_compiled_later_is_found_at_the_next_call():
    assert kernel_library("onnxruntime") is None
    library = write(in_cache())
    assert kernel_library("onnxruntime") == library
    assert f"{NAME} (g++ 12.2)" in describe()


def test_a_wheel_goes_before_the_cache(tmp_path, monkeypatch):
    write(in_cache())
    library = write(tmp_path / "site" / "braid_kernels")
    library.with_name("__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    assert kernel_library("onnxruntime") == library


def test_a_wheel_for_something_else_is_passed_over(tmp_path, monkeypatch, caplog):
    cached = write(in_cache())
    wheel = write(tmp_path / "site" / "braid_kernels", sources="0123")
    wheel.with_name("__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    assert kernel_library("onnxruntime") == cached
    assert "made for sources 0123" in caplog.text


def test_a_folder_of_the_setting_is_the_only_place(tmp_path, monkeypatch):
    write(in_cache())
    monkeypatch.setenv("BRAID_KERNELS", str(tmp_path / "mine"))
    assert kernel_library("onnxruntime") is None
    library = write(tmp_path / "mine")
    assert kernel_library("onnxruntime") == library


def test_off_is_off(monkeypatch):
    write(in_cache())
    monkeypatch.setenv("BRAID_KERNELS", "off")
    assert kernel_library("onnxruntime") is None
    assert describe() == "CPU kernels: off, by BRAID_KERNELS"


def test_a_processor_without_the_instructions_uses_none(monkeypatch):
    write(in_cache())
    monkeypatch.setattr(cpu_kernels, "runs_here", lambda: False)
    assert kernel_library("onnxruntime") is None
    assert "AVX2" in describe()


def damage_library(library):
    library.write_bytes(b"a librarz")


def tear_library(library):
    library.write_bytes(b"a lib")


def remove_library(library):
    library.unlink()


def remove_note(library):
    note_of(library).unlink()


def tear_note(library):
    note_of(library).write_text('{"digest": "ab')


def empty_note(library):
    note_of(library).write_text("[]")


def open_to_others(library):
    library.parent.chmod(0o777)


@pytest.mark.parametrize(
    "harm",
    [damage_library, tear_library, remove_library, remove_note, tear_note, empty_note, open_to_others],
)
def test_what_is_not_whole_or_not_our_own_is_not_used_and_said_once(harm, caplog):
    harm(write(in_cache()))
    assert kernel_library("onnxruntime") is None
    assert kernel_library("onnxruntime") is None
    assert len(caplog.records) == 1
    assert "is not used: " in caplog.text


@pytest.mark.parametrize("changed", [{"release": "2020.1"}, {"machine": "z80"}, {"sources": "0"}])
def test_what_was_made_for_something_else_is_not_used(changed):
    write(in_cache(), **changed)
    assert kernel_library("onnxruntime") is None


def test_a_cache_that_cannot_be_read_is_none(caplog, monkeypatch):
    cpu_kernels.folder().parent.mkdir()
    cpu_kernels.folder().touch()
    assert kernel_library("onnxruntime") is None
    monkeypatch.setenv("BRAID_CACHE", "/proc/1/root/nowhere")
    assert kernel_library("onnxruntime") is None


def test_without_any_the_line_says_what_would_help(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert "with a C++ compiler (g++, clang++) or the wheel braid-kernels" in describe()
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    assert f"once `braid serve` has compiled them with {tmp_path}/g++" in describe()


def test_the_libraries_of_this_checkout_are_used(kernel_folder, monkeypatch):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    made = {each.name for each in kernel_folder.glob("libbraid_*.so")}
    used = {kernel_library(engine).name for engine in build.operators()}
    assert used | {build.ALONE} == made


def test_the_digests_are_those_of_what_is_used(monkeypatch):
    assert cpu_kernels.digests() == ""
    write(in_cache(), b"first")
    assert cpu_kernels.digests() == build.digest(b"first")
