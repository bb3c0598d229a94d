from __future__ import annotations

import pytest
from fake_hub import FakeHub
from hub_rig import HubRig

from pipelines.hub.clients import requests
from pipelines.hub.transfer.fetch_file import FileFetcher


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Before a request is sent again."""
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(requests, "LONGEST_PAUSE_S", 0.05)


@pytest.fixture
def rig(tmp_path, monkeypatch):
    """A hub without repositories, and what fetches from it: pieces of 64 kB."""
    monkeypatch.setattr(FileFetcher, "piece_bytes", 1 << 16)
    monkeypatch.setenv("no_proxy", "*")
    with FakeHub({}) as hub:
        yield HubRig(hub, tmp_path)
