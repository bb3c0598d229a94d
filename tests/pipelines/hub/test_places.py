"""Where a fetched model may be, what a repository may put there, and replies of hubs that are no sense."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest
from fake_hub import _Handler
from hub_rig import NAME, content

from pipelines.hub.base.errors import Corrupt, HubError, NameFault
from pipelines.hub.base.events import Stop
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.base.names import parse_name
from pipelines.hub.model_folder import NOTE, noted_folders
from pipelines.hub.offers.gguf import gguf_offers
from pipelines.hub.pull import Puller, WantedModel

IR = {"openvino_model.xml": b"<x/>", "openvino_model.bin": b"1", "config.json": b"{}"}


def test_notes_of_a_repository_are_not_fetched(rig):
    rig.hub.repos[NAME] = {**IR, "1/" + NOTE: b'{"num_bytes": -1000000}', NOTE: b"{}"}
    folder = rig.pull(local="x")
    assert not (folder / "1").exists()
    assert json.loads((folder / NOTE).read_text())["name"] == NAME
    assert noted_folders(rig.models) == [folder]


@pytest.mark.parametrize("local", ["mine/2", "mine/x", "mine/x/y", "fetched/x"])
def test_nothing_is_put_into_the_folder_of_another_model(rig, local):
    rig.offer(Q4_K_M=content(100))
    (rig.models / "mine" / "1").mkdir(parents=True)
    (rig.models / "mine" / "1" / "graph.yaml").write_text("mine")
    rig.pull(local="fetched")
    with pytest.raises(HubError, match="is the folder of a model"):
        rig.pull(local=local)
    assert [path.name for path in (rig.models / "mine").iterdir()] == ["1"]


def test_names_that_leave_no_room_for_an_unfinished_folder():
    check_local_name("a" * 190)
    with pytest.raises(HubError):
        check_local_name("a" * 230)


def test_a_newer_version_takes_the_place_of_the_older_one_in_the_bound(rig):
    rig.offer(Q4_K_M=content(1000))
    rig.pull(max_bytes=1500)
    rig.offer(Q4_K_M=content(1001, 2))
    rig.pull(max_bytes=1500)
    with pytest.raises(HubError, match="BRAID_PULL_GB"):
        rig.pull(max_bytes=1500, local="another")


def test_pulls_that_run_count_in_the_bound(rig):
    rig.offer(Q4_K_M=content(1000))
    rig.models.mkdir()
    running = rig.models / f".pulling-{os.getppid()}-0.bytes"
    running.write_text("700")
    with pytest.raises(HubError, match="BRAID_PULL_GB"):
        rig.pull(max_bytes=1500)
    killed = subprocess.Popen(["true"])
    killed.wait()
    left = running.rename(rig.models / f".pulling-{killed.pid}-0.bytes")
    rig.pull(max_bytes=1500)
    assert not left.exists()
    assert not [*rig.models.glob("*.bytes")]


def test_what_a_conversion_makes_counts_in_the_bound(rig):
    rig.hub.repos[NAME] = {"config.json": b"{}", "model.safetensors": content(1000)}

    def convert(fetched, new, weights, stop, note):
        (new / "model.onnx").write_bytes(content(3000))

    puller = Puller(rig.environment, rig.events.append, Stop(), convert)
    wish = WantedModel(parse_name(NAME), export="int8", max_bytes=2500)
    with pytest.raises(HubError, match="BRAID_PULL_GB"):
        puller.pull(wish, rig.models)
    assert noted_folders(rig.models) == []
    assert (puller.pull(replace(wish, max_bytes=4000), rig.models) / "model.onnx").is_file()


@pytest.mark.parametrize(
    "text", ["https://[x/m.gguf", "https://x.org:abc/m.gguf", "https://x.org:99999/m.gguf"]
)
def test_addresses_that_are_none(text):
    with pytest.raises(NameFault):
        parse_name(text)


def test_a_password_of_an_address_is_not_shown():
    with pytest.raises(NameFault) as caught:
        parse_name("https://user:secret@x.org/m.gguf")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("place", ["http://127.0.0.1:abc/", "http://[x/"])
def test_a_listing_that_goes_on_at_no_address(rig, place, monkeypatch):
    rig.offer(Q4_K_M=content(100))
    plain = _Handler._json
    monkeypatch.setattr(
        _Handler,
        "_json",
        lambda self, content, more=None: plain(self, content, {"Link": f'<{place}>; rel="next"'}),
    )
    with pytest.raises(Corrupt, match="goes on at no address"):
        rig.pull()


def test_a_size_without_an_end(rig):
    rig.offer(Q4_K_M=content(100))
    rig.hub.entries = lambda entries: [{**entries[0], "lfs": None, "size": float("inf")}]
    with pytest.raises(Corrupt, match="no file"):
        rig.pull()


def test_a_whole_file_beside_its_parts():
    names = [
        "a-Q8_0-00001-of-00002.gguf",
        "a-Q8_0-00002-of-00002.gguf",
        "a-Q8_0.gguf",
        "b-Q2_K-00001-of-00002.gguf",
    ]
    assert [offer.paths for offer in gguf_offers(names)] == [names[:2], names[2:3]]
