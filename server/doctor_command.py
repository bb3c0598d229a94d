"""`braid doctor`: what this machine gives models, and what would make them faster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

PROCESSOR, MEMORY = Path("/proc/cpuinfo"), Path("/proc/meminfo")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
INSTRUCTIONS = ("avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")
"""Flags of processors that linear layers gain by, as Linux names them."""
ENGINES = {"openvino": "openvino", "onnxruntime": "onnxruntime-gpu"}
"""Package of an engine → another one that has it too."""
NEVER = "never"


@click.command()
def doctor() -> None:
    """Say what this machine gives models: processor, engines, compiler, CPU kernels, memory and cache.

    Each line that could be better says what would be gained, and how.
    """
    for name, found in report():
        click.echo(f"{name:12} {found}")


def report() -> Iterator[tuple[str, str]]:
    """What a line is about, and what was found."""
    from pipelines.inference.backends.cpu_kernels import describe, describe_compiler

    yield "processor", _processor()
    for package, other in ENGINES.items():
        yield package, _release(package, other)
    yield "compiler", describe_compiler()
    yield "kernels", describe().removeprefix("CPU kernels: ")
    yield "memory", _memory()
    yield "huge pages", _huge_pages()
    yield "cache", _cache()


def _fields(file: Path) -> dict[str, str]:
    """The first value of each field of a file with a field in each line."""
    fields: dict[str, str] = {}
    for line in file.read_text().splitlines() if file.is_file() else ():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _processor() -> str:
    fields = _fields(PROCESSOR)
    flags = set(f"{fields.get('flags', '')} {fields.get('Features', '')}".split())
    has = [each for each in INSTRUCTIONS if each in flags]
    return f"{fields.get('model name', 'unknown')}, {os.cpu_count()} cores, {' '.join(has) or 'without AVX2'}"


def _release(package: str, other: str) -> str:
    for name in (package, other):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "not installed; pip install 'braid-server[cpu]' installs it"


def _memory() -> str:
    fields = _fields(MEMORY)
    total, free = (int(fields.get(name, "0").split()[0]) / 1e6 for name in ("MemTotal", "MemAvailable"))
    return f"{total:.1f} GB, of which {free:.1f} GB are available"


def _huge_pages() -> str:
    if not HUGE_PAGES.is_file():
        return "the system does not say"
    chosen = HUGE_PAGES.read_text().partition("[")[2].partition("]")[0]
    if chosen == NEVER:
        return f"never; `madvise` in {HUGE_PAGES} lets weights and caches have them"
    return chosen


def _cache() -> str:
    from pipelines.base.cache_folder import default_cache

    named = os.environ.get("BRAID_CACHE")
    folder = Path(named) if named else default_cache()
    there = next(each for each in (folder, *folder.parents) if each.is_dir())
    if not os.access(there, os.W_OK):
        return f"{folder} cannot be written to: models are converted and kernels compiled at each start"
    return f"{folder}, {shutil.disk_usage(there).free / 1e9:.1f} GB are free"
