from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import ServerProcess

MODEL_REPO = Path(__file__).resolve().parents[2] / "model_repo"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the shipped model."""
    models = tmp_path_factory.mktemp("clients") / "models"  # the log is written next to it
    models.symlink_to(MODEL_REPO)
    with ServerProcess(models) as running:
        running.ready(model="braid-demo")
        yield running.url
