"""Compiles the CPU kernels into the cache, in a process of its own: `python -m pipelines.host.kernel_build`.

The process has the lowest priority and ends with its parent.  Of several at once one works, and each library
appears whole or not at all.  What a compiler refused is noted beside, and tried again a day later or when a
source, the compiler or the engine has changed.  What was done is written to stdout, a line for each library;
the exit status is EX_TEMPFAIL where another process compiles, unless this one waits until that has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import IO

from ops.cpu.build import (
    Builder,
    CompileError,
    Engine,
    compiler_version,
    find_compiler,
    library_name,
    operators,
    release,
)
from pipelines.base.cache_folder import appearing, is_unfinished, remove_left, unfinished
from pipelines.host.models.process_death import die_first_without_memory, die_with_parent
from pipelines.inference.backends.cpu_kernels import entry_name, folder, is_usable, wheel_library

LOCK, REFUSED = ".lock", ".refused"
"""The file that the working process has locked, and the suffix of notes of what a compiler refused."""
RETRY_S = 24 * 3600
STORED_ENTRIES = 8
LEAST_PRIORITY = 19
KILL_S, LOCK_S = 0.05, 0.1
_ends = Event()
"""Set when the process was asked to end."""


def missing(compiler: str) -> list[Engine]:
    """The installed engines without a library that this compiler could make and has not refused lately.

    Raises CompileError where the compiler cannot be run.
    """
    return [engine for engine in operators() if release(engine) is not None and _is_missing(engine, compiler)]


def build_missing(compiler: str, waits: bool = False) -> Iterator[str]:
    """Compile what is missing into the cache; yields a sentence on each library.

    Where another process compiles it `waits` for its end, or raises BlockingIOError.  Raises CompileError,
    and OSError.
    """
    with _locked(folder(), waits), unfinished(folder()) as scratch:
        _sweep()
        builder = Builder(scratch, compiler)
        for engine in missing(compiler):
            yield _add(builder, engine)
            _end_if_asked()


def _is_missing(engine: Engine, compiler: str) -> bool:
    entry = _entry(engine, compiler)
    refused = entry.with_name(entry.name + REFUSED)
    if refused.is_file() and _is_recent(refused):
        return False
    wheel = wheel_library(engine)
    libraries = [entry / library_name(engine)] if entry.is_dir() else []
    return not any(is_usable(each, engine) for each in ([wheel] if wheel else []) + libraries)


def _is_recent(refused: Path) -> bool:
    return time.time() - refused.stat().st_mtime < RETRY_S


def _entry(engine: Engine, compiler: str) -> Path:
    return folder() / entry_name(engine, compiler_version(compiler))


def _add(builder: Builder, engine: Engine) -> str:
    """Make the entry of an engine, in the place of one that is damaged; a refusal is noted beside."""
    entry, begin_s = _entry(engine, builder.compiler), time.monotonic()
    shutil.rmtree(entry, ignore_errors=True)
    try:
        with appearing(entry) as new:
            builder.library(engine, new)
    except CompileError as error:
        _end_if_asked()
        refused = entry.with_name(entry.name + REFUSED)
        refused.write_text(str(error))
        return f"the CPU kernels for {engine} were refused by {builder.compiler}; {refused} has what it said"
    seconds = time.monotonic() - begin_s
    if not is_usable(entry / library_name(engine), engine):
        return f"the CPU kernels for {engine} cannot be used as they are in {entry}; remove that folder"
    return f"CPU kernels for {engine} were compiled in {seconds:.0f} s; models that are loaded later use them"


@contextlib.contextmanager
def _locked(parent: Path, waits: bool) -> Iterator[None]:
    """Hold the lock of the cache, which ends with the process that has it.

    Raises BlockingIOError where another process has it and this one does not wait, and OSError.
    """
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (parent / LOCK).open("w") as file:
        while not _has_locked(file, waits):
            time.sleep(LOCK_S)
            _end_if_asked()
        yield


def _has_locked(file: IO[str], waits: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not waits:
            raise
        return False
    return True


def _end_if_asked() -> None:
    """End the process where it was asked to."""
    if _ends.is_set():
        sys.exit(1)


def _sweep() -> None:
    """Remove what killed processes have left, the entries not used for longest, and old refusals."""
    remove_left(folder().iterdir())
    entries = [entry for entry in folder().iterdir() if entry.is_dir() and not is_unfinished(entry)]
    for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime)[:-STORED_ENTRIES]:
        shutil.rmtree(entry, ignore_errors=True)
    for refused in folder().glob(f"*{REFUSED}"):
        if not _is_recent(refused):
            refused.unlink(missing_ok=True)


def _end_at_sigterm() -> None:
    """At SIGTERM the compilers end, by which this process does, and `unfinished` removes what they wrote.

    Python's handlers wait for the main thread, which a signal to another thread does not wake, nor one that
    comes just before it waits for a compiler.  So the interpreter writes the signal's number to a pipe.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # a group of its own, without the program that started it
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    Thread(target=_end_compilers, args=[reads], daemon=True).start()
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _stay)


def _stay(number: int, frame: FrameType | None) -> None:
    """Do nothing in the main thread.  Compilers would inherit SIG_IGN, but not this handler."""


def _end_compilers(reads: int) -> None:
    """Once SIGTERM comes, end the compilers of this process group until the process has ended: its threads
    may start another.
    """
    while signal.SIGTERM not in os.read(reads, 1):
        pass
    _ends.set()
    while True:
        os.killpg(0, signal.SIGTERM)
        time.sleep(KILL_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="pipelines.host.kernel_build", description="Compile CPU kernels.")
    parser.add_argument("--parent", type=int, help="pid of the parent; this process ends when it does")
    parser.add_argument("--wait", action="store_true", help="wait for another process that compiles")
    options = parser.parse_args()
    _end_at_sigterm()
    die_with_parent(options.parent)
    os.nice(LEAST_PRIORITY)
    os.umask(0o022)  # libraries that others may write to are not used
    die_first_without_memory()
    compiler = find_compiler()
    if compiler is None:
        sys.exit("no C++ compiler is installed")
    try:
        for sentence in build_missing(compiler, options.wait):
            print(sentence, flush=True)
    except BlockingIOError:
        print("CPU kernels are being compiled by another process", flush=True)
        sys.exit(os.EX_TEMPFAIL)
    except (CompileError, OSError) as error:
        _end_if_asked()
        print(f"CPU kernels cannot be compiled into {folder()}: {error}")


if __name__ == "__main__":
    main()
