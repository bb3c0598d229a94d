"""A busy host is seen to live without touching a file in every turn."""

from __future__ import annotations

import pytest

from pipelines.host import host as room
from pipelines.host.host import HEARTBEAT_S, Host
from pipelines.host.models.loader import ModelSource
from pipelines.wire.listener import InProcessListener


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(room, "monotonic", lambda: now[0])
    monkeypatch.setattr(room, "IDLE_S", 0.0)
    return now


def test_beats_come_in_time_and_no_oftener(clock, tmp_path):
    beats = []
    source = ModelSource(tmp_path, scan=None, build=None)
    host = Host(source, InProcessListener(), heartbeat=lambda: beats.append(clock[0]))
    for _ in range(5):
        host.turn()
    assert beats == [100.0]
    clock[0] += HEARTBEAT_S
    host.turn()
    host.turn()
    assert beats == [100.0, 100.0 + HEARTBEAT_S]
