"""The bound of the caches of fetched files: what it counts, and what it says."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess

import pytest
from hub_rig import content

from pipelines.hub.base.errors import HubError
from pipelines.hub.transfer.part_file import PartFile

REFUSED = "BRAID_PULL_CACHE_GB allows; `braid pull --clean NAME` removes a model"


@pytest.fixture
def bounded(rig):
    """Contents of 1,000 and 500 bytes fit into the caches."""
    rig.change(max_cache_bytes=1500)
    rig.offer(Q4_K_M=content(1000))
    rig.offer("acme/other", Q4_K_M=content(500, 2))
    rig.offer("acme/third", Q4_K_M=content(1, 3))
    rig.models.mkdir()
    return rig


def test_what_is_cached_counts_and_what_would_go_beyond_is_refused(bounded):
    bounded.pull()
    bounded.pull("acme/other")
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull("acme/third")
    bounded.pull(local="twice")  # it is in the cache
    assert sorted(path.name for path in bounded.models.iterdir() if not path.name.startswith(".")) == [
        "acme",
        "twice",
    ]


def test_files_of_other_programs_count(bounded):
    blob = bounded.environment.hub_cache / "datasets--a--b" / "blobs" / "1"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(content(501))
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull()
    blob.write_bytes(content(500))
    bounded.pull()


def test_an_older_version_counts_until_it_is_removed(bounded):
    bounded.pull()
    bounded.offer(Q4_K_M=content(501, 4))
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull()


def test_a_part_counts_whole_and_only_once(bounded):
    """A part of a file is as long as the file from the start."""
    blobs = bounded.environment.hub_cache / "models--acme--tiny" / "blobs"
    blobs.mkdir(parents=True)
    with PartFile(blobs / hashlib.sha256(content(1000)).hexdigest(), 1000):
        pass  # a process that was killed left it
    bounded.pull("acme/other")
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull("acme/third")
    bounded.pull()
    assert not [*blobs.glob("*.braid-part")]


def test_pulls_of_other_processes_count(bounded):
    locks = bounded.environment.hub_cache / ".locks"
    locks.mkdir(parents=True)
    running = locks / f"braid-{os.getppid()}.files"
    other = bounded.environment.hub_cache / "models--acme--far" / "blobs" / "1"
    running.write_text(json.dumps({str(other): 501}))
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull()
    running.write_text(json.dumps({str(other): 500}))
    bounded.pull()
    other.parent.mkdir(parents=True)
    other.write_bytes(content(500))  # the other process has fetched it, and counts once
    with pytest.raises(HubError, match=REFUSED):
        bounded.pull("acme/third")
    bounded.change(max_cache_bytes=1501)
    bounded.pull("acme/third")
    killed = subprocess.Popen(["true"])
    killed.wait()
    left = running.rename(locks / f"braid-{killed.pid}.files")
    bounded.change(max_cache_bytes=2001)
    bounded.pull("acme/other")
    assert not left.exists()
    assert not [*locks.glob("*.files")]
