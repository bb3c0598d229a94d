from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from paced_model import write_model
from server_process import ServerProcess

MODEL_REPO = Path(__file__).parent.parent.parent / "model_repo"


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """A repository with one model, `fake`, of 5 ms a step."""
    write_model(tmp_path / "models" / "fake")
    return tmp_path / "models"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One running server with the shipped model, for the tests that leave it serving."""
    models = tmp_path_factory.mktemp("demo") / "models"  # its log is written beside it
    models.symlink_to(MODEL_REPO)
    with ServerProcess(models) as running:
        running.ready(model="braid-demo")
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One running server for the tests of a file that leave it serving."""
    models = tmp_path_factory.mktemp("server") / "models"
    write_model(models / "fake")
    with ServerProcess(models) as running:
        running.ready()
        yield running
