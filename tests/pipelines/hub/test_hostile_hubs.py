"""What a hub that means harm can do: names, sizes, redirects, listings without an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_hub import Fault
from hub_rig import NAME, content
from hypothesis import given
from hypothesis import strategies as st

from pipelines.hub.base.errors import Corrupt, HubError
from pipelines.hub.base.remote_files import is_safe_path
from pipelines.hub.model_folder import NOTE

PATHS = ("../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a//x.gguf", "", ".", "..", "a/.", "x\0.gguf", "x\n.gguf",
         "a\\..\\x.gguf", "C:x.gguf", "a" * 300 + ".gguf", "/".join("a" * 20), " x.gguf", "x?.gguf")  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=[repr(path)[:30] for path in PATHS])
def test_names_that_lead_elsewhere_are_refused(rig, path):
    rig.offer(Q4_K_M=content(100))
    rig.hub.entries = lambda entries: [*entries, {"type": "file", "path": path, "size": 3, "oid": "0" * 40}]
    with pytest.raises(Corrupt, match="a name that is refused"):
        rig.pull()
    assert list(rig.folder.rglob("*.gguf")) == []


@given(st.text(max_size=60) | st.from_regex(r"[./\\a~-]{1,30}", fullmatch=True))
def test_a_safe_path_is_below_its_folder(path):
    if is_safe_path(path):
        joined = Path(os.path.normpath(Path("/base") / path))
        assert joined.is_relative_to("/base")
        assert joined != Path("/base")


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 1 << 50},
        {"size": "x"},
        {"oid": "../../x"},
        {"oid": "zz"},
        {"oid": None},
        {"size": None},
    ],
    ids=str,
)
def test_entries_that_are_no_files(rig, change):
    rig.offer(Q4_K_M=content(100))
    rig.hub.entries = lambda entries: [
        {"type": "file", "path": "a.txt", "size": 3, "oid": "0" * 40, **change}
    ]
    with pytest.raises(Corrupt):
        rig.pull()


def test_a_listing_without_an_end(rig, monkeypatch):
    monkeypatch.setattr("pipelines.hub.clients.hugging_face.MAX_PAGES", 5)
    rig.hub.page_files = 1
    rig.hub.repos[NAME] = {f"{number}.txt": b"x" for number in range(9)}
    with pytest.raises(Corrupt, match="does not end"):
        rig.pull()


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "ftp://x/y", "http://u:p@127.0.0.1/x", "http://x y/", "javascript:1"]
)
def test_redirects_to_what_is_no_address(rig, place):
    rig.offer(Q4_K_M=content(100))
    rig.hub.faults.append(Fault("resolve", status=302, headers={"Location": place}))
    with pytest.raises(HubError, match="redirects to what is no address"):
        rig.pull()


def test_redirects_without_an_end(rig):
    rig.offer(Q4_K_M=content(100))
    rig.hub.faults += [Fault("resolve", status=302, headers={"Location": f"/{NAME}/resolve/main/a"})] * 20
    with pytest.raises(HubError, match="redirects more than"):
        rig.pull()


def test_a_body_longer_than_listed_writes_no_more(rig):
    rig.offer(Q4_K_M=content(1000))
    rig.hub.faults.append(
        Fault(NAME, spoil=lambda data: data + bytes(1 << 20), headers={"Content-Length": None})
    )
    rig.pull()
    assert [blob.stat().st_size for blob in rig.blobs] == [1000]


def test_something_else_in_the_place_of_a_model_stays(rig):
    rig.offer(Q4_K_M=content(100))
    mine = rig.models / NAME
    mine.mkdir(parents=True)
    (mine / "mine.txt").write_text("mine")
    with pytest.raises(HubError, match="is there already and was not fetched"):
        rig.pull()
    assert os.listdir(mine) == ["mine.txt"]
    outside = rig.folder / "outside"
    outside.mkdir()
    (outside / NOTE).write_text("{}")
    (rig.models / "link").symlink_to(outside)
    with pytest.raises(HubError, match="is there already"):
        rig.pull(local="link")


def test_code_of_a_repository_is_not_fetched(rig):
    rig.hub.repos[NAME] = {
        "openvino_model.xml": b"<x/>",
        "openvino_model.bin": b"1",
        "modeling.py": b"import os",
        "pytorch_model.bin": b"x",
        "weights.pkl": b"x",
        "config.json": b"{}",
    }
    folder = rig.pull()
    assert sorted(path.name for path in folder.iterdir() if path.name != NOTE) == [
        "config.json",
        "openvino_model.bin",
        "openvino_model.xml",
    ]
    assert rig.hub.asked(".py") + rig.hub.asked(".pkl") + rig.hub.asked("pytorch") == []
