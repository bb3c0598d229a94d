"""The version of the server, from pyproject.toml in a checkout, else from the installed distribution."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

from pipelines.base import DISTRIBUTION, ROOT


def read_version(root: Path) -> str:
    """The version of the project in `root`; of the installed distribution when `root` is no checkout.

    Raises importlib.metadata.PackageNotFoundError when there is neither.
    """
    file = root / "pyproject.toml"
    if file.is_file():
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == DISTRIBUTION:
            return str(project["version"])
    return metadata.version(DISTRIBUTION)


VERSION = read_version(ROOT)
FINGERPRINT = f"braid-{VERSION}"
