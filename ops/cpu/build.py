"""Compiles the CPU kernels, alone or together with the operator through which an engine calls them.

`python -m ops.cpu.build FOLDER` makes the library of the kernels and those of the installed engines.  Beside
each library is a note, NAME.json, by which a reader sees what it was made from and that it is whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypedDict, get_args

Engine = Literal["openvino", "onnxruntime"]

HERE = Path(__file__).parent
SUFFIXES = {".cpp", ".h", ".hpp"}
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-O3", "-std=c++17", "-fPIC", "-fvisibility-inlines-hidden", "-Wall", "-ffp-contract=off")
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", *AVX2)
X86: dict[str, tuple[str, ...]] = {
    "avx512": AVX512,
    "avx512vnni": AVX512,
    "avxvnni": (*AVX2, "-mavxvnni"),
    "avx2": AVX2,
}
ARM: dict[str, tuple[str, ...]] = {"neon": ("-march=armv8.2-a+dotprod",)}
INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {"x86_64": X86, "AMD64": X86, "aarch64": ARM}
"""A machine → the last word of a source's name → what that may use beyond what each of them has."""
OPERATORS = {"openvino": "openvino_extension.cpp", "onnxruntime": "onnxruntime_operator.cpp"}
"""The source with the operator of each engine."""
MACHINES = {"x86_64", "AMD64"}
ALONE = "libbraid_cpu.so"
"""The library of the kernels without an engine, for ctypes."""
TAIL_BYTES = 4000
"""How much of a compiler's output an error shows."""


class CompileError(Exception):
    """A compiler refused a source, or what it needs is not installed; the message has its output."""


class Note(TypedDict):
    """What is known of a library.  `release`: that of its engine, "" where any does."""

    digest: str
    sources: str
    release: str
    machine: str
    compiler: str


def library_name(engine: Engine | None) -> str:
    return ALONE if engine is None else f"libbraid_{engine}.so"


def note_of(library: Path) -> Path:
    """The file with the note of a library."""
    return library.with_suffix(".json")


def digest(content: bytes) -> str:
    """The digest of a library, as its note has it."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sources_digest(folder: Path = HERE) -> str:
    """A digest of all that libraries are compiled from, and of how: 16 hexadecimal digits."""
    found = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8)
    for file in sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES):
        content = file.read_bytes()
        found.update(f"{file.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return found.hexdigest()


def find_compiler() -> str | None:
    """The path of the C++ compiler: the one that CXX names, else the first that is installed."""
    names = [named] if (named := os.environ.get("CXX")) else COMPILERS
    return next((path for name in names if (path := shutil.which(name))), None)


@cache
def compiler_version(compiler: str) -> str:
    """The first line of what a compiler says of itself.  Raises CompileError."""
    return (_run([compiler, "--version"]).splitlines() or ["unknown"])[0]


def release(engine: Engine | None) -> str | None:
    """The release of the installed engine that a library has to be for; None: it is not installed.

    "": any release does, as for ONNX Runtime, whose C interface only grows.
    """
    if engine != "openvino":
        return "" if engine is None or find_spec(engine) else None
    try:
        return version(engine)
    except PackageNotFoundError:
        return None


def operators(folder: Path = HERE) -> list[Engine]:
    """The engines for which there is an operator."""
    return [engine for engine in get_args(Engine) if (folder / OPERATORS[engine]).is_file()]


@dataclass(frozen=True)
class Unit:
    """A source, and what the compiler is given with it."""

    source: Path
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Builder:
    """Compiles the sources of `folder`, each once, into `scratch`; links them into one library or more.

    `flags` are added to those of every source and library, as those of a sanitizer.
    """

    scratch: Path
    compiler: str
    folder: Path = HERE
    flags: tuple[str, ...] = ()

    def library(self, engine: Engine | None, into: Path) -> Path:
        """Make a library and its note.  Raises CompileError, and OSError where nothing can be written."""
        units = [*self._kernels()]
        linked: list[str] = []
        if engine is not None:
            unit, linked = _operator(engine, self.folder)
            units.append(unit)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = list(pool.map(self._compile, units))
        built = into / library_name(engine)
        _run([self.compiler, *self.flags, "-shared", "-Wl,-Bsymbolic", *objects, *linked, "-o", str(built)])
        note = Note(
            digest=digest(built.read_bytes()),
            sources=sources_digest(self.folder),
            release=release(engine) or "",
            machine=platform.machine(),
            compiler=compiler_version(self.compiler),
        )
        note_of(built).write_text(json.dumps(note, indent=1) + "\n")
        return built

    def _kernels(self) -> Iterator[Unit]:
        own = INSTRUCTIONS.get(platform.machine(), {})
        others = {word for words in INSTRUCTIONS.values() for word in words} - own.keys()
        for source in sorted(self.folder.glob("*.cpp")):
            word = source.stem.rpartition("_")[2]
            if source.name not in OPERATORS.values() and word not in others:
                yield Unit(source, own.get(word, ()))

    def _compile(self, unit: Unit) -> str:
        """The path of the object file."""
        made = self.scratch / f"{unit.source.stem}.o"
        if not made.exists():
            command = [self.compiler, *FLAGS, *unit.flags, *self.flags, "-c", str(unit.source)]
            _run([*command, "-o", str(made)])
        return str(made)


def build(into: Path, engines: Sequence[Engine | None], compiler: str, *flags: str) -> list[Path]:
    """The libraries of these engines, made in the folder `into`; None is that of the kernels alone.

    Raises CompileError, and OSError.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        builder = Builder(Path(scratch), compiler, flags=flags)
        return [builder.library(engine, into) for engine in engines]


def _operator(engine: Engine, folder: Path) -> tuple[Unit, list[str]]:
    """The source of an engine's operator, and the libraries that it is linked to."""
    source = folder / OPERATORS[engine]
    if engine == "onnxruntime":
        return Unit(source, ("-isystem", str(folder / "include"))), []
    home = _home(engine)
    config = home / "cmake" / "OpenVINOConfig.cmake"
    text = config.read_text() if config.is_file() else ""
    abi = re.search(r'set\(OpenVINO_GLIBCXX_USE_CXX11_ABI "([01])"\)', text)
    flags = (f"-D_GLIBCXX_USE_CXX11_ABI={abi[1] if abi else 1}", "-isystem", str(home / "include"))
    libraries = [*home.glob("libs/libopenvino.so.*"), *home.glob("libs/libtbb.so.12")]
    if len(libraries) != 2:
        raise CompileError(f"{home} lacks libs/libopenvino.so.* or libs/libtbb.so.12")
    return Unit(source, flags), [str(library) for library in libraries]


def _home(engine: Engine) -> Path:
    """The folder of an installed engine.  Raises CompileError."""
    spec = find_spec(engine)
    if spec is None or spec.origin is None:
        raise CompileError(f"{engine} is not installed")
    return Path(spec.origin).parent


def _run(command: Sequence[str]) -> str:
    """What a command writes to stdout.  Raises CompileError."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise CompileError(f"{command[0]}: {error}") from error
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise CompileError(f"{' '.join(command)}\n{how}: {done.stderr[-TAIL_BYTES:].strip()}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="ops.cpu.build", description="Compile the CPU kernels.")
    parser.add_argument("folder", type=Path, help="where the libraries are written")
    parser.add_argument("--flag", action="append", default=[], help="a further flag of the compiler")
    options = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        sys.exit("no C++ compiler is installed; CXX names one")
    installed = [engine for engine in operators() if release(engine) is not None]
    try:
        for library in build(options.folder, [None, *installed], compiler, *options.flag):
            print(library)
    except (CompileError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
