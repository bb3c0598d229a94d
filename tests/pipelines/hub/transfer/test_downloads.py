"""Files come whole or not at all: cuts, stalls, wrong contents, refusals, other processes, no network."""

from __future__ import annotations

import fcntl
import os
import threading

import pytest
from fake_hub import Fault
from hub_rig import NAME, content
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.hub.base.errors import (
    AccessDenied,
    Corrupt,
    HubError,
    NotCached,
    NotThere,
    PullCancelled,
    Unreachable,
)
from pipelines.hub.base.events import Stop
from pipelines.hub.clients.requests import MAX_TRIES

SIZE = 300_000
DATA = content(SIZE)


def test_a_file_comes_in_parallel_ranges_and_is_verified(rig):
    rig.offer(Q4_K_M=DATA)
    folder = rig.pull()
    assert (folder / "tiny-Q4_K_M.gguf").read_bytes() == DATA
    assert sorted(rig.contents()) == sorted(
        f"bytes={start}-{min(start + 65536, SIZE) - 1}" for start in range(0, SIZE, 65536)
    )
    assert "verifying" in rig.statuses
    assert rig.statuses[-1] == "success"
    assert rig.events[-1].completed == rig.events[-1].total == SIZE
    assert len(rig.blobs) == 1
    assert rig.pull() == folder
    assert len(rig.contents()) == 5, "what is there is not fetched again"


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 65_535), max_size=4), seed=st.integers(0, 99))
def test_cuts_at_any_byte_lose_nothing(rig, cuts, seed):
    data = content(SIZE, seed)
    repo = f"acme/cut-{seed}-{len(rig.hub.repos)}"
    rig.offer(repo, Q4_K_M=data)
    rig.hub.log.clear()
    rig.hub.faults[:] = [Fault(repo, cut=cut) for cut in cuts]
    assert (rig.pull(repo) / "tiny-Q4_K_M.gguf").read_bytes() == data
    begins = [int(sent.removeprefix("bytes=").partition("-")[0]) for sent in rig.contents()]
    assert len(begins) == 5 + len(cuts) - cuts.count(65_536) or len(begins) <= 5 + len(cuts)
    assert len({*begins}) >= 5


def test_a_stalled_body_is_asked_for_again_from_where_it_stood(rig):
    rig.change(timeout_s=0.5)
    rig.offer(Q4_K_M=DATA[:60_000])
    rig.hub.faults.append(Fault(NAME, stall=20_000))
    assert (rig.pull() / "tiny-Q4_K_M.gguf").read_bytes() == DATA[:60_000]
    assert rig.contents() == [None, "bytes=20000-59999"]


def test_a_cancelled_pull_goes_on_from_where_it_was(rig):
    rig.offer(Q4_K_M=DATA)
    stop = Stop()
    rig.watch = lambda event: event.completed and stop.set()  # reported once the first bytes are stored
    rig.hub.faults += [Fault(NAME, stall=30_000)]
    rig.change(timeout_s=1.0)
    with pytest.raises(PullCancelled):
        rig.pull(stop=stop)
    assert not (rig.models / NAME).exists(), "half a model has no folder"
    assert all("braid-" in blob.name for blob in rig.blobs)
    before = len(rig.contents())
    rig.pull()
    again = sum(_length(sent) for sent in rig.contents()[before:])
    assert 0 < again < SIZE


def _length(sent):
    begin, _, end = sent.removeprefix("bytes=").partition("-")
    return int(end) - int(begin) + 1


def test_a_server_without_ranges_sends_the_whole_file(rig):
    rig.hub.ranges = False
    rig.offer(Q4_K_M=DATA)
    rig.hub.faults.append(Fault(NAME, cut=100_000))
    assert (rig.pull() / "tiny-Q4_K_M.gguf").read_bytes() == DATA


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault(NAME, spoil=lambda data: bytes(len(data))), "its content is"),
        (Fault(NAME, headers={"Content-Range": "bytes 0-9/999"}), "bytes, not 300000|another range"),
        (Fault(NAME, headers={"Content-Encoding": "gzip"}), "compresses"),
    ],
    ids=["zeros", "another length", "compressed"],
)
def test_wrong_contents_are_never_served(rig, fault, text):
    rig.offer(Q4_K_M=DATA)
    rig.hub.faults += [fault] * 40
    with pytest.raises(HubError, match=text):
        rig.pull()
    assert not (rig.models / NAME).exists()
    assert [blob for blob in rig.blobs if "braid-" not in blob.name] == []
    rig.hub.faults.clear()
    rig.pull()


def test_damage_that_an_earlier_process_left_is_fetched_again(rig):
    rig.offer(Q4_K_M=DATA)
    rig.hub.faults.append(Fault(NAME, spoil=lambda data: bytes(len(data))))
    assert (rig.pull() / "tiny-Q4_K_M.gguf").read_bytes() == DATA


def test_a_file_that_changes_meanwhile_is_not_mixed(rig):
    rig.offer(Q4_K_M=DATA)
    rig.pull()
    first = rig.hub.commit(NAME)
    rig.offer(Q4_K_M=content(SIZE, 2))
    folder = rig.pull()
    assert (folder / "tiny-Q4_K_M.gguf").read_bytes() == content(SIZE, 2)
    assert (rig.pull(revision=first, local="old") / "tiny-Q4_K_M.gguf").read_bytes() == DATA
    rig.offer("acme/moving", Q4_K_M=DATA)
    rig.hub.faults.append(Fault("acme/moving/resolve", status=404, code="RevisionNotFound"))
    with pytest.raises(NotThere, match="no such revision"):
        rig.pull("acme/moving")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_asked_again(rig, status):
    rig.offer(Q4_K_M=DATA[:1000])
    rig.hub.faults += [
        Fault("revision", status=status, headers={"Retry-After": "0"}),
        Fault("tree", status=status),
    ]
    rig.hub.faults += [Fault("resolve", status=status)]
    rig.pull()
    rig.hub.faults += [Fault("revision", status=status)] * MAX_TRIES
    rig.pull()  # what is cached serves
    rig.hub.faults += [Fault("revision", status=status)] * MAX_TRIES
    with pytest.raises(NotCached, match=str(status)):
        rig.pull("acme/other")


def test_refusals_say_what_to_do(rig):
    rig.offer(Q4_K_M=DATA[:1000])
    rig.offer("acme/gated", Q4_K_M=DATA[:1000])
    rig.offer("acme/private", Q4_K_M=DATA[:1000])
    rig.hub.gated.add("acme/gated")
    rig.hub.private.add("acme/private")
    page = f"{rig.hub.url}/acme/gated"
    with pytest.raises(AccessDenied, match=f"accept the licence at {page}, then set HF_TOKEN"):
        rig.pull("acme/gated")
    with pytest.raises(NotThere, match="no such model, or it is private: HF_TOKEN is not set"):
        rig.pull("acme/private")
    with pytest.raises(NotThere, match="at v9: the hub has no such revision"):
        rig.pull(revision="v9")
    rig.change(token="hf_other")
    with pytest.raises(AccessDenied, match="the account of the token has no access: accept the licence at"):
        rig.pull("acme/gated")
    with pytest.raises(NotThere, match="or the account of the token does not have access"):
        rig.pull("acme/private")
    rig.change(token="hf_wrong")
    with pytest.raises(AccessDenied, match="does not accept the token"):
        rig.pull()
    rig.change(token="hf_good")
    assert rig.pull("acme/gated").is_dir()
    assert rig.pull("acme/private").is_dir()


def test_a_token_goes_to_its_hub_alone(rig):
    rig.offer(Q4_K_M=DATA)
    rig.change(token="hf_good")
    rig.hub.xet = True  # its headers change nothing
    rig.pull()
    assert {sent.token for sent in rig.hub.log if sent.host.startswith("127.0.0.1")} == {"Bearer hf_good"}
    assert {sent.token for sent in rig.hub.log if sent.host.startswith("localhost")} == {None}
    assert "hf_good" not in repr(rig.environment) + repr(rig.events)


def test_listings_in_pages(rig):
    rig.hub.page_files = 7
    rig.hub.repos[NAME] = {f"a{number}.txt": b"x" for number in range(20)} | {"tiny-Q8_0.gguf": DATA[:9]}
    rig.pull()
    assert len(rig.hub.asked("/tree/")) == 3


def test_offline(rig):
    rig.offer(Q4_K_M=DATA[:1000], Q8_0=DATA[:2000])
    rig.pull()
    num_requests = len(rig.hub.log)
    rig.change(is_offline=True)
    assert rig.pull().is_dir()
    with pytest.raises(NotCached, match="1 of 1 files are not in the cache, tiny-Q8_0.gguf among them"):
        rig.pull(f"{NAME}:Q8_0")
    with pytest.raises(NotCached, match="acme/other is not in the cache, and HF_HUB_OFFLINE is set"):
        rig.pull("acme/other")
    assert len(rig.hub.log) == num_requests
    rig.change(is_offline=False, endpoint="http://127.0.0.1:9")
    assert rig.pull(local="again").is_dir()
    assert "from the cache, since http://127.0.0.1:9/acme/tiny cannot be reached" in rig.events[-1].message
    with pytest.raises(NotCached, match="cannot be reached"):
        rig.pull("acme/other")


def test_only_another_quantisation_is_cached(rig):
    rig.offer(Q4_K_M=DATA[:1000], Q8_0=DATA[:2000])
    rig.pull(f"{NAME}:Q8_0")
    rig.change(is_offline=True)
    assert [path.name for path in rig.pull().glob("*.gguf")] == ["tiny-Q8_0.gguf"]


def test_a_lock_of_another_library_is_waited_for(rig):
    rig.offer(Q4_K_M=DATA[:1000])
    etag = rig.hub.ids(DATA[:1000])[1]
    locks = rig.environment.hub_cache / ".locks" / "models--acme--tiny"
    locks.mkdir(parents=True)
    lock = os.open(locks / f"{etag}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    puller = threading.Thread(target=rig.pull)
    puller.start()
    while "waiting" not in rig.statuses:
        assert puller.is_alive()
    assert rig.contents() == []
    os.close(lock)
    puller.join(30)
    assert rig.statuses[-1] == "success"


def test_an_address_of_a_file(rig):
    rig.offer(Q4_K_M=DATA)
    address = f"{rig.hub.url}/plain/{NAME}/tiny-Q4_K_M.gguf"
    digest = rig.hub.ids(DATA)[1]
    folder = rig.pull(address, sha256=digest)
    assert folder == rig.models / "tiny-Q4_K_M"
    assert (folder / "tiny-Q4_K_M.gguf").read_bytes() == DATA
    with pytest.raises(Corrupt, match="its content is"):
        rig.pull(address, sha256="0" * 64, local="wrong")
    assert rig.pull(address, local="unknown").is_dir()


def test_too_many_failures_end(rig):
    rig.offer(Q4_K_M=DATA[:1000])
    rig.hub.faults += [Fault(NAME, cut=0)] * MAX_TRIES
    with pytest.raises(Unreachable, match="ended early"):
        rig.pull()


def test_large_files_are_links_and_small_ones_copies(rig, monkeypatch):
    monkeypatch.setattr("pipelines.hub.model_folder.SMALL_BYTES", 1000)
    rig.hub.repos[NAME] = {
        "onnx/model_q4.onnx": DATA[:2000],
        "onnx/model_q4.onnx_data": DATA[:3000],
        "config.json": b"{}",
    }
    folder = rig.pull()
    links = {path.name: path.stat().st_nlink for path in folder.rglob("*") if path.is_file()}
    assert links == {".braid-hub.json": 1, "config.json": 1, "model.onnx": 2, "model_q4.onnx_data": 1}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
