"""What the master sets up before its first worker."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from patience import PATIENCE_S

from server.base.environment import read_settings
from server.process import private_folder, startup
from server.process.private_folder import PrivateFolder
from server.process.worker_state import WorkerState


@pytest.fixture
def start(tmp_path, monkeypatch):
    """`start(certfile=...)` starts an arbiter with these options of gunicorn; returns its host's command."""
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("server.process.private_folder.FALLBACK", str(tmp_path))
    commands = []

    class Supervisor:
        def __init__(self, command, *_, **__):
            commands.append(command(0))

        def poll(self): ...

    monkeypatch.setattr(startup, "EngineSupervisor", Supervisor)
    monkeypatch.setattr(startup, "WorkerPool", lambda *_: SimpleNamespace(install=lambda: None))

    def run(**options):
        config = Config()
        for name, value in options.items():
            config.set(name, value)
        startup.start(arbiter_of(config), read_settings(os.environ))
        return commands[-1]

    return run


def arbiter_of(config):
    return SimpleNamespace(cfg=config, log=logging.getLogger(), WORKERS={}, stop=lambda graceful: None)


def test_an_arbiter_that_stops_says_so_to_its_workers_first(start, monkeypatch):
    arbiter, told = arbiter_of(Config()), []
    state = WorkerState()
    state.set_mismatched_host(7)
    arbiter.WORKERS[1] = SimpleNamespace(state=state)
    arbiter.stop = lambda graceful: told.append((graceful, state.server_ends))
    monkeypatch.setattr(f"{__name__}.arbiter_of", lambda config: arbiter)
    start()
    before = state.server_ends
    arbiter.stop()
    assert (before, told, state.is_ready, state.mismatched_host) == (False, [(True, True)], False, 7)


@pytest.mark.parametrize(("options", "scheme"), [({}, "http"), ({"certfile": "c.pem"}, "https")])
def test_the_banners_url_has_the_scheme_that_is_served(start, options, scheme):
    command = start(**options)
    assert command[command.index("--url") + 1].startswith(f"{scheme}://127.0.0.1")
    in_a_worker = read_settings(os.environ)
    assert in_a_worker.url.startswith(f"{scheme}://")


def test_the_host_knows_the_model_that_its_banner_calls(start):
    assert "--default-model" not in start()
    os.environ["BRAID_DEFAULT_MODEL"] = "mine"
    command = start()
    assert command[command.index("--default-model") + 1] == "mine"


def test_a_start_removes_what_a_killed_server_left(start, tmp_path):
    """Its processes are gone, and with them the lock on its folder."""
    left = startup.PrivateFolder()
    (left.path / "responses.sqlite").write_text("stored")
    os.close(left._lock)
    start()
    assert not left.path.exists()
    (living,) = tmp_path.iterdir()
    assert (living / "metrics").is_dir()


def test_a_server_starts_where_every_disk_is_full(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    monkeypatch.setattr(private_folder, "MEMORY", str(tmp_path))
    monkeypatch.setenv("TMPDIR", "/full")
    folder = PrivateFolder()
    assert folder.path.parent == tmp_path
    assert os.environ["TMPDIR"] == str(tmp_path)
    folder.remove()


def test_the_master_imports_no_messages_which_workers_would_take_over():
    """Else a reload with new code would start workers that speak the old version."""
    code = (
        "import sys, server.gunicorn_conf, server.process.worker; from server.process.socket_options import *"
    )
    code += "\nsocket_options(); sys.exit('pipelines.wire.messages' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
