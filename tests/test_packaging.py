"""What is packed into a wheel; dependencies are ranges in pyproject.toml that agree with constraints.txt."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from every_case import every_case
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMED = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
REQUIREMENTS = [Requirement(each) for each in NAMED]
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
]
ROOMS = ("graphs", "ops", "pipelines", "server", "tools")
OF_USERS = {"chat", "client", "export", "load_test", "retrieval", "top"}
OF_USERS |= {
    "__init__.py",
    "agents",
    "kernel_layers.py",
    "logit_distance.py",
    "paged_steps.py",
    "read_text.py",
    "run_check.py",
}
"""What of `tools` is in the wheel."""
PINNED = {canonicalize_name(each.name): each.specifier for each in PINS}


@every_case("pin", PINS)
def test_a_constraint_is_one_exact_version(pin):
    assert [each.operator for each in pin.specifier] == ["=="]


@every_case("requirement", REQUIREMENTS)
def test_the_pinned_version_is_within_the_range(requirement):
    (pin,) = PINNED[canonicalize_name(requirement.name)]
    assert {each.operator for each in requirement.specifier} <= {">=", "<"}
    assert requirement.specifier.contains(pin.version)


def test_the_license_is_the_one_that_is_named():
    assert PROJECT["license"] == "Apache-2.0"
    assert re.search(r"Apache License\s+Version 2\.0", (ROOT / "LICENSE").read_text())


@pytest.mark.slow
def test_a_wheel_has_every_file_but_those_of_the_lab(tmp_path):
    """It has what runs and what users of `braid` call: benchmarks and checks of Braid itself stay out."""
    source = tmp_path / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {
        path.relative_to(source).as_posix()
        for room in ROOMS
        for path in (source / room).rglob("*")
        if path.is_file()
    }
    assert packed == {name for name in files if not name.startswith("tools/lab/")}
    assert {name.split("/")[1] for name in packed if name.startswith("tools/")} == OF_USERS


def test_make_installs_the_pinned_versions():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--editable" in line]
    assert installs
    assert all("--constraint constraints.txt" in line for line in installs)
