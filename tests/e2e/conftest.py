from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import Tab, open_chromium
from paced_model import write_model
from peft_adapters import write_adapted_model, write_adapter
from server_process import ServerProcess

if TYPE_CHECKING:
    from ray_cluster import Cluster


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """A repository with one model, `fake`, whose steps take 5 ms."""
    write_model(tmp_path / "models" / "fake")
    return tmp_path / "models"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with two workers, shared by all tests that do not stop it.

    It has the fake model, and `tuned`, whose folder is in `tuned`, with the adapters `poet`, `pirate` and `named`.
    A file of tests may add others to the folder `models` for its time, with code of their own.
    """
    folder = tmp_path_factory.mktemp("server")
    write_model(folder / "models" / "fake")
    tuned = write_adapted_model(folder / "models" / "tuned", "poet", "pirate")
    named = write_adapter(folder / "elsewhere", 7)
    adapters = {"LORA_MODULES": f"named={named}", "ALLOW_RUNTIME_LORA_UPDATING": "1"}
    settings = {**adapters, "ALLOW_NODE_CODE": "1", "NODE_CODE_S": "0.5"}
    with ServerProcess(folder / "models", WORKERS="2", **settings) as running:
        running.models, running.tuned = folder / "models", tuned  # type: ignore[attr-defined]
        running.ready()
        running.ready("tuned")
        yield running


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the models of `mixed_models`, shared by the files that `MIXED` of the schedule names.

    Requests may bring templates.
    """
    from mixed_models import write_mixed_models

    folder = tmp_path_factory.mktemp("mixed")
    write_mixed_models(folder / "models")
    settings = {"CACHE": str(folder / "cache"), "TRUST_REQUEST_CHAT_TEMPLATE": "1"}
    with ServerProcess(folder / "models", **settings) as running:
        running.all_ready()
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser, shared by the tests of a file."""
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def tab(chromium: Any) -> Iterator[Tab]:
    """A page of it, which each test loads anew."""
    tab = Tab(chromium)
    yield tab
    tab.close()


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two replicas of Ray Serve with the demo model, and `heard`, a small Whisper of random weights."""
    from ray_cluster import Cluster
    from tiny_whisper import export_whisper

    cluster = Cluster(tmp_path_factory.mktemp("ray"))
    export_whisper(cluster.models, tmp_path_factory.mktemp("whisper"))
    with cluster:
        yield cluster
