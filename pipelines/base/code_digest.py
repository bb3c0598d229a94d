"""The digest of source code, for the keys of caches: what other code has made is made again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pipelines.base.digests import digest

SUFFIXES = {".py", ".cu", ".cuh", ".cpp", ".h"}


@cache
def code_digest(*modules: str) -> str:
    """A digest of the source of these modules as hexadecimal text; a package counts with all below it.

    The modules are named and not imported.  Raises ModuleNotFoundError for one that is not there: a key
    without it would find what other code has made.
    """
    return digest(*(part for module in modules for part in _parts(module)), num_bytes=8)


def _parts(module: str) -> Iterator[str | bytes]:
    for file in _sources(module):
        content = file.read_bytes()
        yield f"{module} {file.name} {len(content)} "
        yield content


def _sources(module: str) -> Iterator[Path]:
    """The files of a module or a package, in a fixed order."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:  # a folder without __init__.py has no origin
        raise ModuleNotFoundError(f"there is no module {module} to digest", name=module)
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield origin
    else:
        yield from (file for file in sorted(origin.parent.rglob("*")) if file.suffix in SUFFIXES)
