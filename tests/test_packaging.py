"""Dependencies are ranges in pyproject.toml and exact versions in constraints.txt, and the two agree."""

import re
import tomllib
from pathlib import Path

import pytest
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
PINNED = {canonicalize_name(each.name): each.specifier for each in PINS}


@pytest.mark.parametrize("pin", PINS, ids=str)
def test_a_constraint_is_one_exact_version(pin):
    assert [each.operator for each in pin.specifier] == ["=="]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_pinned_version_is_within_the_range(requirement):
    (pin,) = PINNED[canonicalize_name(requirement.name)]
    assert {each.operator for each in requirement.specifier} <= {">=", "<"}
    assert requirement.specifier.contains(pin.version)


def test_the_license_is_the_one_that_is_named():
    assert PROJECT["license"] == "Apache-2.0"
    assert re.search(r"Apache License\s+Version 2\.0", (ROOT / "LICENSE").read_text())


def test_a_wheel_has_the_files_of_the_status_page():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    folder = ROOT / "server" / "page"
    assert (folder / "__init__.py").is_file()  # else setuptools finds no package
    files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".py"]
    assert files
    assert [path.name for path in files if not any(path.match(each) for each in patterns)] == []


def test_make_installs_the_pinned_versions():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--editable" in line]
    assert installs
    assert all("--constraint constraints.txt" in line for line in installs)
