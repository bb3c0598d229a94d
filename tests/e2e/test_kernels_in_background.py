"""A server compiles the CPU kernels while it serves, where it may, and says in one line what it does."""

from __future__ import annotations

import psutil
import pytest
from fake_compiler import FakeCompiler
from patience import PATIENCE_S
from server_process import ServerProcess

pytestmark = pytest.mark.breadth
UNTIL_THEN = "CPU kernels are compiled in the background; until then"
LATER = "models that are loaded later use them"


def builders(server):
    return [each for each in server.host().children() if "kernel_build" in " ".join(each.cmdline())]


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    return FakeCompiler(tmp_path, monkeypatch)


@pytest.fixture
def kernels(tmp_path):
    return {"KERNELS": "auto", "CACHE": str(tmp_path / "cache")}


def test_a_server_serves_while_they_are_compiled_and_stops_what_compiles(models_dir, compiler, kernels):
    compiler.hold()
    with ServerProcess(models_dir, **kernels) as server:
        server.ready()
        server.wait_for(lambda: compiler.calls)
        assert server.log().count(UNTIL_THEN) == 1
        assert LATER not in server.log()
        (builder,) = builders(server)
        assert builder.nice() == min(19, psutil.Process().nice() + 19)
        running = [builder, *builder.children()]
    assert psutil.wait_procs(running, PATIENCE_S)[1] == []


def test_of_two_hosts_one_compiles(models_dir, compiler, kernels):
    with ServerProcess(models_dir, ENGINES="2", **kernels) as server:
        server.ready()
        server.wait_for(lambda: LATER in server.log())
