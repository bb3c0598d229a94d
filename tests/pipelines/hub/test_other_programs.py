"""The cache is shared with other programs and outlives them: huggingface_hub, two pullers, one that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_rig import NAME, content
from patience import PATIENCE_S
from server_process import ROOT

DATA = content(3_000_000)
FILES = {
    "openvino_model.xml": b"<net/>",
    "openvino_model.bin": content(200_000),
    "config.json": b"{}",
    "sub/notes.txt": b"notes",
}


@pytest.fixture
def programs(rig):
    """Runs programs with the variables of the rig's hub."""
    variables = {
        **os.environ,
        **rig.hub.environment(rig.folder, HF_HUB_DOWNLOAD_TIMEOUT="60"),
        "BRAID_CACHE": str(rig.folder / "braid"),
    }

    def start(*command):
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def pull(programs, rig, *more):
    return programs("-m", "server.cli", "pull", NAME, "--to", str(rig.models), *more)


def ended(process):
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    return output


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_pull_that_is_killed_goes_on_from_where_it_was(programs, rig):
    rig.offer(Q4_K_M=DATA)
    rig.hub.delay_s = 0.05
    first = pull(programs, rig)
    until(lambda: any(blob.name.endswith("-pieces") and _counted(blob) > 500_000 for blob in rig.blobs))
    first.kill()
    first.communicate()
    assert not (rig.models / NAME).exists()
    rig.hub.delay_s = 0.0
    ended(pull(programs, rig))
    begin = int(rig.contents()[-1].removeprefix("bytes=").partition("-")[0])
    assert begin > 500_000
    assert (rig.models / NAME / "tiny-Q4_K_M.gguf").read_bytes() == DATA
    assert [blob.name for blob in rig.blobs] == [rig.hub.ids(DATA)[1]]


def _counted(table):
    return int.from_bytes(table.read_bytes()[16:24], "little")


def test_two_pullers_fetch_a_file_once(programs, rig):
    rig.offer(Q4_K_M=DATA)
    rig.hub.goes_on.clear()
    first = pull(programs, rig, "--as", "one")
    until(rig.contents)
    second = pull(programs, rig, "--as", "two")
    assert second.stdout is not None
    assert any("another process fetches it" in line for line in second.stdout)
    rig.hub.goes_on.set()
    ended(first)
    ended(second)
    assert len(rig.contents()) == 1
    assert all((rig.models / name / "tiny-Q4_K_M.gguf").read_bytes() == DATA for name in ("one", "two"))


THEIRS = """
import json
from huggingface_hub import scan_cache_dir, snapshot_download
folder = snapshot_download({name!r}, {options})
found = scan_cache_dir()
print(json.dumps([folder, [str(each) for each in found.warnings],
                  [[repo.repo_id, repo.nb_files] for repo in found.repos]]))
"""


def theirs(programs, options):
    output = ended(programs("-c", THEIRS.format(name=NAME, options=options)))
    return json.loads(output.splitlines()[-1])


def test_what_braid_fetched_is_whole_for_huggingface_hub(programs, rig):
    rig.hub.repos[NAME] = FILES
    folder = rig.pull()
    num_requests = len(rig.hub.log)
    snapshot, warnings, repos = theirs(programs, "local_files_only=True")
    assert (warnings, repos) == ([], [[NAME, 3]])
    assert Path(snapshot, "openvino_model.bin").read_bytes() == (folder / "openvino_model.bin").read_bytes()
    assert len(rig.hub.log) == num_requests
    theirs(programs, "")
    fetched = {sent.path.partition("/resolve/")[2].partition("/")[2] for sent in rig.hub.log[num_requests:]
               if sent.method == "GET" and "/resolve/" in sent.path}  # fmt: skip
    assert fetched == {"sub/notes.txt"}, "it fetches what it lacks, and nothing else"


def test_what_huggingface_hub_fetched_is_not_fetched_again(programs, rig):
    rig.hub.repos[NAME] = FILES
    theirs(programs, "")
    num_contents = len(rig.hub.asked("/resolve/"))
    folder = rig.pull()
    assert (folder / "openvino_model.bin").read_bytes() == FILES["openvino_model.bin"]
    assert len(rig.hub.asked("/resolve/")) == num_contents
    rig.change(is_offline=True)
    assert rig.pull(local="again").is_dir()
