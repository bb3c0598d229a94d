from __future__ import annotations

import threading
from collections.abc import Iterator

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
