"""The process that compiles the CPU kernels: held, killed, twice at once, refused, without a place to write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest
from fake_compiler import FakeCompiler, start_build
from patience import PATIENCE_S

from ops.cpu.build import compiler_version, operators, release
from pipelines.host import kernel_build
from pipelines.inference.backends import cpu_kernels
from pipelines.inference.backends.cpu_kernels import folder, kernel_library
from pipelines.inference.backends.kernel_process import BUSY

TWO_DAYS_S = 48 * 3600
ENGINES = [engine for engine in operators() if release(engine) is not None]


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAID_KERNELS", "auto")
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cpu_kernels, "runs_here", lambda: True)
    return FakeCompiler(tmp_path, monkeypatch)


def ran():
    """What the process said, at its end."""
    return start_build().communicate(timeout=PATIENCE_S)[0]


def built(compiler):
    """What it would say, without a process."""
    compiler_version.cache_clear()
    return "\n".join(kernel_build.build_missing(str(compiler.path)))


@contextmanager
def held(compiler):
    """A process whose compilers run until the block ends."""
    compiler.hold()
    process = start_build()
    until(lambda: compiler.calls)
    try:
        yield process
    finally:
        compiler.release()
        process.communicate(timeout=PATIENCE_S)


def until(condition):
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def opens_the_lock(process):
    return any(file.path.endswith(kernel_build.LOCK) for file in psutil.Process(process.pid).open_files())


def used():
    return [engine for engine in ENGINES if kernel_library(engine)]


def left_over():
    return [each.name for each in folder().iterdir() if each.name.startswith(".unfinished")]


def test_every_installed_engine_gets_its_library(compiler):
    said = ran()
    assert used() == ENGINES
    assert [f"CPU kernels for {engine} were compiled" in said for engine in ENGINES] == [True] * len(ENGINES)
    assert left_over() == []


def test_what_is_there_is_not_compiled_again(compiler):
    built(compiler)
    num_calls = len(compiler.calls)
    assert (built(compiler), len(compiler.calls)) == ("", num_calls)


def test_another_compiler_compiles_again(compiler):
    built(compiler)
    compiler.path.write_text(compiler.path.read_text().replace("fake 1.0", "fake 2.0"))
    assert built(compiler).count("were compiled") == len(ENGINES)
    assert used() == ENGINES


def test_of_two_at_once_one_compiles(compiler):
    with held(compiler):
        second = start_build()
        (said, _), status = second.communicate(timeout=PATIENCE_S), second.returncode
        assert (said, status) == ("CPU kernels are being compiled by another process\n", BUSY)
        assert used() == []
    assert used() == ENGINES


def test_a_process_that_waits_compiles_what_the_other_has_left(compiler):
    with held(compiler) as process:
        second = start_build("--wait")
        process.kill()
        process.wait(PATIENCE_S)
    (said, _) = second.communicate(timeout=PATIENCE_S)
    assert (said.count("were compiled"), second.returncode) == (len(ENGINES), 0)
    assert used() == ENGINES


def test_nothing_of_a_killed_process_is_used_and_the_next_one_starts_anew(compiler):
    with held(compiler) as process:
        process.kill()
        process.wait(PATIENCE_S)
        assert used() == []
        assert left_over() != []
    assert "were compiled" in ran()
    assert used() == ENGINES
    assert left_over() == []


def test_a_process_that_is_ended_ends_its_compilers(compiler):
    compiler.hold()
    process = start_build()
    until(lambda: compiler.calls)
    compilers = psutil.Process(process.pid).children(recursive=True)
    assert compilers
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert psutil.wait_procs(compilers, PATIENCE_S)[1] == []
    assert (used(), left_over()) == ([], [])


def test_a_process_that_waits_for_another_ends(compiler):
    with held(compiler):
        second = start_build("--wait")
        until(lambda: opens_the_lock(second))
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 1
    assert used() == ENGINES


def test_a_process_that_is_ended_ends_no_other_of_the_program_that_started_it(compiler):
    code = """
import signal, subprocess, sys
build = subprocess.Popen([sys.executable, "-m", "pipelines.host.kernel_build"], stdout=subprocess.PIPE)
sys.stdin.read(1)
build.send_signal(signal.SIGTERM)
build.communicate()
print(build.returncode)
"""
    compiler.hold()
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as program:
        until(lambda: compiler.calls)
        assert program.communicate("e", timeout=PATIENCE_S)[0] == "1\n"


def test_a_signal_that_interrupts_the_start_of_a_thread_ends_the_process(compiler):
    """The signal comes in the main thread while that has the lock which a started thread needs to begin."""
    code = """
import os, signal, sys, threading
from pipelines.host import kernel_build

entered = threading.Condition.__enter__

def interrupted(self):
    lock = entered(self)
    if not done and threading.current_thread().name.startswith("MainThread"):
        done.append(os.kill(os.getpid(), signal.SIGTERM))
        for _ in range(100): pass
    return lock

def start(self, started=threading.Thread.start):
    if self.name.startswith("ThreadPool"):
        threading.Condition.__enter__ = interrupted
    started(self)

done = []
threading.Thread.start = start
sys.argv = ["kernel_build"]
kernel_build.main()
"""
    compiler.hold()
    ended = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, start_new_session=True)
    assert ended.returncode == 1
    assert (used(), left_over()) == ([], [])


def test_what_was_refused_is_tried_again_a_day_later(compiler):
    compiler.refuse("onnxruntime_operator")
    assert "the CPU kernels for onnxruntime were refused" in built(compiler)
    assert "onnxruntime" not in used()
    (refused,) = folder().glob("*.refused")
    assert "error: no" in refused.read_text()
    compiler.refuse("nothing at all")
    assert built(compiler) == ""
    os.utime(refused, (time.time() - TWO_DAYS_S,) * 2)
    assert "CPU kernels for onnxruntime were compiled" in built(compiler)
    assert used() == ENGINES


def test_a_refusal_for_one_engine_leaves_the_others(compiler):
    compiler.refuse("onnxruntime_operator")
    built(compiler)
    assert used() == [engine for engine in ENGINES if engine != "onnxruntime"]


def test_a_damaged_library_is_made_again(compiler):
    built(compiler)
    kernel_library("onnxruntime").write_bytes(b"torn")
    assert "onnxruntime" not in used()
    assert "CPU kernels for onnxruntime were compiled" in built(compiler)
    assert used() == ENGINES


def test_a_cache_that_cannot_be_written_is_said(compiler, tmp_path):
    (tmp_path / "cache").touch()
    assert "CPU kernels cannot be compiled into" in ran()
    assert used() == []


def test_the_oldest_entries_are_removed(compiler, monkeypatch):
    monkeypatch.setattr(kernel_build, "STORED_ENTRIES", 2)
    for number in range(4):
        (folder() / f"openvino-{number}").mkdir(parents=True)
        os.utime(folder() / f"openvino-{number}", (number, number))
    built(compiler)
    assert {each.name for each in folder().glob("openvino-[0-3]")} == {"openvino-2", "openvino-3"}
    assert used() == ENGINES


def test_a_signal_that_another_thread_gets_ends_the_process(compiler):
    """Such a signal does not wake the main thread, which waits for the compilers."""
    code = """
import signal, sys, threading, time
from ops.cpu import build
from pipelines.host import kernel_build

def compiled(self, unit, compile=build.Builder._compile):
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    return compile(self, unit)

build.Builder._compile = compiled
sys.argv = ["kernel_build"]
kernel_build.main()
"""
    compiler.hold()
    ended = subprocess.run([sys.executable, "-c", code], start_new_session=True, timeout=PATIENCE_S)
    assert ended.returncode == 1


def test_libraries_of_a_user_whose_group_may_write_are_used(compiler):
    before = os.umask(0o002)
    try:
        assert ran().count("were compiled") == len(ENGINES)
    finally:
        os.umask(before)
    assert used() == ENGINES


def test_entries_that_are_used_are_the_last_to_be_removed(compiler, monkeypatch):
    built(compiler)
    entries = [kernel_library(engine).parent for engine in ENGINES]
    for number, entry in enumerate(entries):
        os.utime(entry, (number, number))
    assert used() == ENGINES
    assert min(entry.stat().st_mtime for entry in entries) > len(entries)


def test_old_notes_of_refusals_are_removed(compiler):
    folder().mkdir(parents=True)
    for name, age_s in (("openvino-old.refused", TWO_DAYS_S), ("openvino-new.refused", 0)):
        (folder() / name).touch()
        os.utime(folder() / name, (time.time() - age_s,) * 2)
    built(compiler)
    assert [file.name for file in folder().glob("*.refused")] == ["openvino-new.refused"]
