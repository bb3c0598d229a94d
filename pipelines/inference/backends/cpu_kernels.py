"""The compiled CPU kernels: which library of them an engine of this process loads, if there is one.

CACHE/kernels/openvino-2026.4.1-1f0c…-7a2b…/     by engine, its release, sources, and compiler
├── libbraid_openvino.so
└── libbraid_openvino.json                       what it was made from, and its digest

A wheel `braid_kernels` has both files too.  This module looks them up and compiles nothing: that is the work
of `pipelines.host.kernel_build`, in a process of its own.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from ops.cpu.build import (
    MACHINES,
    CompileError,
    Engine,
    Note,
    compiler_version,
    find_compiler,
    library_name,
    note_of,
    operators,
    release,
    sources_digest,
)
from ops.cpu.build import digest as library_digest
from pipelines.base.cache_folder import default_cache
from pipelines.base.digests import digest

log = logging.getLogger(__name__)

SETTING, CACHE_SETTING = "BRAID_KERNELS", "BRAID_CACHE"
"""Settings of the server, which every process of it has in its environment."""
AUTO, OFF = "auto", "off"
"""Values of the setting; any other one is a folder of libraries."""
WHEEL = "braid_kernels"
NEEDED = {"avx2", "fma", "f16c"}
"""Instructions without which a processor runs none of the kernels, as Linux names them."""
CPU_FLAGS = Path("/proc/cpuinfo")
OTHERS_MAY_WRITE = 0o022
GAIN = "models with weights of 4 to 8 bits decode faster (docs/kernels.md)"

tries_models = False
"""Whether this process loads models to try them alone: then few experts of a mixture stand for all of them,
since no request reads what it computes.
"""
_logged: set[str] = set()


def kernel_library(engine: Engine) -> Path | None:
    """The library of the CPU kernels with the operator of an engine; None where there is none that fits.

    It is looked up again at each call, so that a model that is loaded later uses what was compiled meanwhile.
    What is damaged or made for something else is not used, and logged once.  Never raises.
    """
    if setting() == OFF or not runs_here():
        return None
    try:
        library = next((library for library in _candidates(engine) if is_usable(library, engine)), None)
        if library is not None and folder() in library.parents:
            with suppress(OSError):  # a folder that is read-only
                os.utime(library.parent)  # entries that are used are the last to be removed
        return library
    except OSError as error:
        _log_once(f"CPU kernels are not used: {error}")
    return None


def digests() -> str:
    """The digests of the libraries that engines use, for keys of what was made or tried with them."""
    return " ".join(_read_note(library)["digest"] for library in _libraries())


def describe() -> str:
    """One line: the libraries that are used, or why there are none and what they would give."""
    if libraries := _libraries():
        names = " and ".join(f"{library.name} ({_read_note(library)['compiler']})" for library in libraries)
        return f"CPU kernels: {names} in {libraries[0].parent.parent}"
    if setting() == OFF:
        return f"CPU kernels: off, by {SETTING}"
    if not runs_here():
        return "CPU kernels: none, since they need an x86-64 processor with AVX2"
    if setting() != AUTO:
        return f"CPU kernels: none that can be used in {setting()}, which {SETTING} names"
    if (compiler := find_compiler()) is not None:
        return f"CPU kernels: none yet; once `braid serve` has compiled them with {compiler}, {GAIN}"
    return f"CPU kernels: none; with a C++ compiler (g++, clang++) or the wheel braid-kernels, {GAIN}"


def describe_compiler() -> str:
    """The C++ compiler that would make the libraries, or what to install."""
    path = find_compiler()
    if path is None:
        return "none; with g++ or clang++ `braid serve` compiles the CPU kernels itself"
    try:
        return f"{path}: {compiler_version(path)}"
    except CompileError as error:
        return f"{path} cannot be run: {error}"


def is_usable(library: Path, engine: Engine) -> bool:
    """Whether a library is whole, our own, and made for this engine here; if not, it is logged once."""
    problem = _problem(library, engine)
    if problem is not None:
        _log_once(f"{library} is not used: {problem}")
    return problem is None


def wheel_library(engine: Engine) -> Path | None:
    """The library of an engine in the wheel; None where the wheel is not installed."""
    wheel = find_spec(WHEEL)
    return (
        None if wheel is None or wheel.origin is None else Path(wheel.origin).with_name(library_name(engine))
    )


def setting() -> str:
    """AUTO, OFF, or a folder."""
    return os.environ.get(SETTING) or AUTO


def folder() -> Path:
    """The folder of the cache in which libraries are stored."""
    cache_folder = os.environ.get(CACHE_SETTING)
    return (Path(cache_folder) if cache_folder else default_cache()) / "kernels"


def entry_name(engine: Engine, compiler: str) -> str:
    """The name of the cache's entry that a compiler, by what it says of itself, makes for an engine."""
    return _entry_start(engine) + digest(compiler, num_bytes=4)


@cache
def runs_here() -> bool:
    """Whether this processor has the instructions that the kernels need."""
    if platform.machine() not in MACHINES or not CPU_FLAGS.is_file():
        return False
    lines = (line.partition(":") for line in CPU_FLAGS.read_text().splitlines())
    flags = next((value for name, _, value in lines if name.strip() == "flags"), "")
    return {*flags.split()} >= NEEDED


def _libraries() -> list[Path]:
    """The libraries that the engines of this process would load."""
    return [library for engine in operators() if (library := kernel_library(engine))]


def _candidates(engine: Engine) -> Iterator[Path]:
    """The places of the library of an engine, the first choice first."""
    name = library_name(engine)
    if setting() != AUTO:
        yield Path(setting()).expanduser() / name
        return
    if (wheel := wheel_library(engine)) is not None:
        yield wheel
    if folder().is_dir():
        entries = [entry for entry in folder().iterdir() if entry.name.startswith(_entry_start(engine))]
        yield from (entry / name for entry in sorted(entries, key=_age, reverse=True) if entry.is_dir())


def _entry_start(engine: Engine) -> str:
    return f"{engine}-{release(engine) or 'any'}-{_sources()}-"


@cache
def _sources() -> str:
    return sources_digest()


def _age(entry: Path) -> int:
    return entry.stat().st_mtime_ns


def _problem(library: Path, engine: Engine) -> str | None:
    """Why a library cannot be used; None where it can."""
    try:
        if folder() in library.parents and not (_is_own(library) and _is_own(library.parent)):
            return "others can write to it"
        content, note = library.read_bytes(), _read_note(library)
        if note["digest"] != library_digest(content):
            return "it is damaged"
        expected = {"sources": _sources(), "machine": platform.machine(), "release": release(engine)}
        noted = {name: value for name, value in note.items() if name in expected}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it cannot be read: {type(error).__name__}: {error}"
    return (
        "; ".join(
            f"it was made for {name} {noted.get(name)} and not {value}"
            for name, value in list(expected.items())
            if noted.get(name) != value
        )
        or None
    )


def _read_note(library: Path) -> Note:
    """The note of a library.  Raises OSError, and ValueError."""
    note = json.loads(note_of(library).read_text())
    if not isinstance(note, dict):
        raise ValueError(f"{note_of(library).name} has no note")
    return cast(Note, note)


def _is_own(path: Path) -> bool:
    """Whether no other user but root can change a file or folder."""
    found = path.stat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & OTHERS_MAY_WRITE


def _log_once(message: str) -> None:
    if message not in _logged:
        _logged.add(message)
        log.warning("%s", message)
