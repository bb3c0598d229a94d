"""Makes a virtual environment for each peer once, so that no peer is installed into Braid's environment.

A failed installation is stored with its reason, and tried again when its folder is removed or its
recipe changes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


class NotInstalled(Exception):
    """The environment cannot be made here; the message has the reason."""


@dataclass(frozen=True)
class Recipe:
    """Requirements for pip.

    `bare` is installed without its dependencies, which are then installed by name but for those in `without`.
    `alias` is a second name and version of `bare`, for a program that looks itself up under that name.
    """

    packages: tuple[str, ...]
    bare: str = ""
    without: tuple[str, ...] = ()
    alias: str = ""

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


NEEDED = """
import re, sys
from importlib.metadata import requires
for line in requires(sys.argv[1]) or ():
    if "extra ==" not in line and re.match(r"[\\w.-]+", line).group() not in sys.argv[2:]:
        print(line)
"""
"""Prints the dependencies of a distribution except some names."""

ALIASED = """
import sys
from importlib.metadata import distribution
from pathlib import Path
own, (name, version) = sys.argv[1], sys.argv[2].split("==")
folder = Path(distribution(own).locate_file("")) / f"{name}-{version}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
"""
"""Gives a distribution a second name and version."""


def environment(folder: Path, recipe: Recipe, stage: Callable[[str], None]) -> Path:
    """The Python of the environment in `folder`, made when it does not exist.  Raises NotInstalled."""
    marker, failed = folder / ".made", folder / ".failed"
    if marker.exists() and marker.read_text() == recipe.fingerprint:
        return folder / "bin" / "python"
    if failed.exists() and failed.read_text().startswith(recipe.fingerprint):
        raise NotInstalled(failed.read_text().partition("\n")[2])
    stage(f"installing {folder.name}")
    try:
        python = _install(folder, recipe)
    except subprocess.CalledProcessError as error:
        failed.write_text(f"{recipe.fingerprint}\n{_reason(error)}")
        raise NotInstalled(_reason(error)) from None
    marker.write_text(recipe.fingerprint)
    return python


def _install(folder: Path, recipe: Recipe) -> Path:
    _run(sys.executable, "-m", "venv", str(folder))
    python = folder / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, *recipe.packages)
    if recipe.bare:
        name = recipe.bare.partition("==")[0]
        _run(*pip, "--no-deps", recipe.bare)
        needed = _run(str(python), "-c", NEEDED, name, *recipe.without)
        _run(*pip, *needed.splitlines())
        if recipe.alias:
            _run(str(python), "-c", ALIASED, name, recipe.alias)
    return python


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _reason(error: subprocess.CalledProcessError) -> str:
    """The last error that pip printed, or its last line."""
    lines = [line.strip() for line in error.stderr.splitlines() if line.strip()] or ["no reason given"]
    return next((line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1])
