from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import one_thread
import pytest
from patience import PATIENCE_S
from scripted_host import Repository, RunningHost

from pipelines.host.host import Host
from pipelines.host.models.instances import ModelInstances
from pipelines.wire.messages import Status
from pipelines.wire.socket_listener import SocketListener


def pytest_runtest_setup() -> None:
    one_thread.begin()


def pytest_runtest_teardown() -> None:
    one_thread.end()


def tiny_export(name: str) -> Any:
    """A fixture: a tiny model of a family, (Hugging Face's folder, that of its export by optimum-intel)."""

    @pytest.fixture(scope="session", name=name)
    def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")
        module = importlib.import_module(f"tiny_{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(module, f"write_{name}")(tmp_path_factory.mktemp(name))

    return exported


llava, gemma3, idefics3, smolvlm, internvl, voxtral = map(
    tiny_export, ("llava", "gemma3", "idefics3", "smolvlm", "internvl", "voxtral")
)


@pytest.fixture
def repository() -> Repository:
    return Repository()


@pytest.fixture
def running_host(tmp_path, repository) -> Iterator[RunningHost]:
    """A host with a socket listener, in a thread; drained at the end."""
    announced: list[Status] = []
    path = tmp_path / "engine.sock"
    host = Host(
        repository.source(tmp_path),
        SocketListener(path),
        instances=ModelInstances(linger_s=0.0),
        announce=announced.append,
    )
    thread = threading.Thread(target=host.run, name="test-host")
    thread.start()
    yield RunningHost(host, thread, path, announced)
    if repository.hold is not None:
        repository.hold.set()
    host.drain()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
