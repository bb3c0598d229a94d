"""The version has one source: pyproject.toml in a checkout, the distribution's metadata where it is installed."""

from __future__ import annotations

from importlib import metadata

import pytest

from pipelines.base import DISTRIBUTION
from server.base.version import read_version


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(metadata, "version", {DISTRIBUTION: "1.2.3"}.__getitem__)


def test_a_checkout_has_the_version_of_its_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "{DISTRIBUTION}"\nversion = "9.8.7"\n')
    assert read_version(tmp_path) == "9.8.7"


def test_an_installed_package_has_the_version_of_its_distribution(tmp_path):
    assert read_version(tmp_path) == "1.2.3"


def test_the_project_of_another_package_is_ignored(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "9.8.7"\n')
    assert read_version(tmp_path) == "1.2.3"
