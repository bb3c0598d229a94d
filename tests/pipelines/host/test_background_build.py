"""What an engine host does about CPU kernels at its start, and what it logs."""

from __future__ import annotations

import logging
import threading

import pytest
from fake_compiler import FakeCompiler
from patience import PATIENCE_S

from pipelines.host import background_build
from pipelines.inference.backends import cpu_kernels, kernel_process

UNTIL_THEN = "CPU kernels are compiled in the background; until then linear layers are the engines' own"


@pytest.fixture
def start(tmp_path, monkeypatch, caplog):
    """Starts it as a host on `device` does; returns the lines that are logged until its thread ends."""
    monkeypatch.setenv("BRAID_KERNELS", "auto")
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(background_build, "runs_here", lambda: True)
    monkeypatch.setattr(cpu_kernels, "runs_here", lambda: True)
    caplog.set_level(logging.INFO)

    def start_and_wait(device=None):
        caplog.clear()
        background_build.start_build(device)
        for thread in [started for started in threading.enumerate() if started.name == "kernels"]:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        return [record.getMessage() for record in caplog.records]

    return start_and_wait


def test_the_first_start_compiles_and_the_second_uses(start, tmp_path, monkeypatch):
    compiler = FakeCompiler(tmp_path, monkeypatch)
    first, *later = start()
    assert first == UNTIL_THEN
    assert later
    assert all("models that are loaded later use them" in line for line in later)
    num_calls = len(compiler.calls)
    (line,) = start()
    assert line.startswith("CPU kernels: libbraid_")
    assert len(compiler.calls) == num_calls


def test_without_a_compiler_a_line_says_what_would_help(start, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    (line,) = start()
    assert line.startswith("CPU kernels: none; with a C++ compiler")


def test_nothing_is_compiled_for_a_gpu(start, tmp_path, monkeypatch):
    FakeCompiler(tmp_path, monkeypatch)
    assert start("cuda:0") == []


@pytest.mark.parametrize("setting", ["off", "/tmp"])
def test_nothing_is_compiled_but_for_auto(start, tmp_path, monkeypatch, setting):
    FakeCompiler(tmp_path, monkeypatch)
    monkeypatch.setenv("BRAID_KERNELS", setting)
    assert start() == []


def test_a_compiler_that_cannot_run_is_said(start, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/shell\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    (line,) = start()
    assert line.startswith("CPU kernels cannot be compiled: ")


def test_a_process_that_leaves_the_work_to_another_is_no_failure(start, tmp_path, monkeypatch):
    FakeCompiler(tmp_path, monkeypatch)
    monkeypatch.setattr(kernel_process, "COMMAND", ("sh", "-c", f"exit {kernel_process.BUSY}"))
    assert start() == [UNTIL_THEN]


def test_a_process_that_is_killed_is_said(start, tmp_path, monkeypatch):
    FakeCompiler(tmp_path, monkeypatch)
    monkeypatch.setattr(kernel_process, "COMMAND", ("sh", "-c", "kill -9 $$"))
    first, second = start()
    assert first == UNTIL_THEN
    assert second == "the process that compiled CPU kernels ended with -9; the next start tries again"
