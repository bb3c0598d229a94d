"""A server whose folder for temporary files is a small disk of its own, which becomes full and empty again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from closed_clients import closed_later
from openai import APIStatusError, OpenAI
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ServerProcess

DISK_BYTES = 48 << 20
TOKENS = "vllm:generation_tokens_total{"


@pytest.fixture
def disk():
    """A folder that is a disk of 48 MB, with a path that is short enough for a socket in the server's folder."""
    folder = Path(tempfile.mkdtemp(prefix="disk-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("a small disk can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def fill(disk, leave=0):
    """Another program takes all the disk has but `leave` bytes."""
    with (disk / "fill").open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(file.tell() - leave)


def status_of(call):
    try:
        call()
    except APIStatusError as error:
        return error.status_code
    return 200


def store_and_read(client):
    """Whether a response says that it is stored, and the status of reading it."""
    made = client.responses.create(model="fake", input="hi", max_output_tokens=3)
    return made.store, status_of(lambda: client.responses.retrieve(made.id))


def upload(client, num_bytes):
    return status_of(
        lambda: client.files.create(file=("in.jsonl", b"x" * num_bytes), purpose="batch", timeout=PATIENCE_S)
    )


def chats(client, number=5):
    messages = [{"role": "user", "content": "hi"}]
    made = [
        client.chat.completions.create(
            model="fake", messages=messages, max_tokens=3, extra_body={"ignore_eos": True}
        )
        for _ in range(number)
    ]
    return [each.usage.completion_tokens for each in made]


def test_a_full_disk_fails_what_needs_it_and_nothing_else(tmp_path, disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(disk))
    write_model(tmp_path / "models" / "fake")
    fill(disk, leave=20 << 10)
    with ServerProcess(tmp_path / "models") as server:
        server.ready()
        assert [*disk.glob("braid-*")], "the server has no folder there"
        client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0))
        pids = server.worker_pids(), server.host().pid
        assert store_and_read(client) == (False, 507)  # started without room
        os.unlink(disk / "fill")
        assert store_and_read(client) == (True, 200)
        assert client.batches.list().data == []

        server.wait_for(lambda: TOKENS in httpx.get(f"{server.url}/metrics").text)

        taken = [upload(client, size) for size in [8 << 20] * 6 + [1 << 20] * 9]
        assert (taken[0], taken[-1]) == (200, 507)
        free = os.statvfs(disk)
        assert free.f_bavail * free.f_frsize > 2 << 20  # the reserve
        messages = [{"role": "user", "content": "hi"}]
        stream = client.chat.completions.create(
            model="fake", messages=messages, max_tokens=300, stream=True, extra_body={"ignore_eos": True}
        )
        next(stream)
        fill(disk)
        assert chats(client) == [3] * 5
        assert store_and_read(client) == (False, 404)
        assert status_of(lambda: client.responses.create(model="fake", input="hi", background=True)) == 507
        assert upload(client, 1) == 507
        assert TOKENS in httpx.get(f"{server.url}/metrics").text
        assert [chunk.choices[0].finish_reason for chunk in stream][-1] == "length"

        os.unlink(disk / "fill")
        for file in client.files.list().data:
            client.files.delete(file.id)
        assert upload(client, 2 << 20) == 200
        assert store_and_read(client) == (True, 200)
        assert (server.worker_pids(), server.host().pid) == pids
        assert "SIGBUS" not in server.log()
