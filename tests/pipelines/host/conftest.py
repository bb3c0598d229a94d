from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE_S
from scripted_host import Repository, RunningHost

from pipelines.host.host import Host
from pipelines.host.instances import ModelInstances
from pipelines.wire.messages import Status
from pipelines.wire.socket_listener import SocketListener


@pytest.fixture(scope="session")
def llava(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny LLaVA: (Hugging Face's folder, that of its export by optimum-intel)."""
    pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")
    from tiny_llava import write_llava

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="session")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny Gemma 3: (Hugging Face's folder, that of its export by optimum-intel)."""
    pytest.importorskip("optimum.exporters.openvino", reason="needs the extra optimum")
    from tiny_gemma3 import write_gemma3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_gemma3(tmp_path_factory.mktemp("gemma3"))


@pytest.fixture
def repository() -> Repository:
    return Repository()


@pytest.fixture
def running_host(tmp_path, repository) -> Iterator[RunningHost]:
    """A host with a socket listener, in a thread; drained at the end."""
    announced: list[Status] = []
    path = tmp_path / "engine.sock"
    host = Host(
        tmp_path,
        SocketListener(path),
        scan=repository.scan,
        build=repository.build,
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
