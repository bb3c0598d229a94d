"""Models of ModelScope's hub: its lists, contents and tokens."""

from __future__ import annotations

import pytest
from fake_hub import Fault
from hub_rig import NAME, content

from pipelines.hub.base.errors import AccessDenied, Corrupt, NotThere
from pipelines.hub.clients import modelscope

FILES = {
    "openvino_model.xml": b"<net/>",
    "openvino_model.bin": content(150_000),
    "config.json": b"{}",
    "1/notes.txt": b"notes",
    "other/deep/x.txt": b"x",
}


@pytest.fixture
def scope(rig):
    rig.hub.repos[NAME] = FILES
    rig.change(modelscope=rig.hub.url, token="hf_good")
    return rig


def test_a_model_is_fetched_and_served_without_a_network(scope):
    folder = scope.pull(hub="modelscope")
    assert (folder / "openvino_model.bin").read_bytes() == FILES["openvino_model.bin"]
    assert {sent.token for sent in scope.hub.log} == {None}, "the token of another hub is not sent"
    assert not scope.environment.hub_cache.exists(), "its files are no part of the other hub's cache"
    num_contents = len(scope.contents())
    scope.pull(hub="modelscope", local="again")
    assert len(scope.contents()) == num_contents
    scope.change(is_offline=True)
    assert scope.pull(hub="modelscope", local="offline").is_dir()


def test_a_list_that_is_cut_is_asked_for_by_folders(scope, monkeypatch):
    scope.hub.page_files = 5
    monkeypatch.setattr(modelscope, "CUT", 5)
    folder = scope.pull(hub="modelscope")
    assert (folder / "1" / "notes.txt").is_file()
    assert [sent for sent in scope.hub.log if "Root=other%2Fdeep" in sent.path]


def test_tokens_and_wrong_contents(scope):
    scope.hub.private.add(NAME)
    with pytest.raises(AccessDenied):
        scope.pull(hub="modelscope")
    scope.change(modelscope_token="ms_good")
    assert scope.pull(hub="modelscope").is_dir()
    assert {sent.token for sent in scope.hub.asked("/cdn/")} == {None}, "no token goes to another host"
    with pytest.raises(NotThere):
        scope.pull("acme/none", hub="modelscope")


def test_a_content_with_another_sum_is_refused(scope):
    scope.hub.faults += [Fault("openvino_model.bin", spoil=lambda data: data[::-1])] * 2
    scope.hub.repos[NAME] = {**FILES, "openvino_model.bin": content(5000)}
    with pytest.raises(Corrupt):
        scope.pull(hub="modelscope")
    assert scope.pull(hub="modelscope").is_dir()
