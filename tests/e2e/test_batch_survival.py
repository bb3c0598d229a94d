"""Batches of a real server whose processes are killed: no line is lost, and none has two results."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys

import openai
import psutil
import pytest
from closed_clients import closed_later
from paced_model import write_model
from patience import PATIENCE_S, until
from server_process import ServerProcess

pytestmark = pytest.mark.breadth

NUM_LINES = 300


def client(server: ServerProcess) -> openai.OpenAI:
    return closed_later(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=8))


def lines(count: int = NUM_LINES) -> bytes:
    body = {"model": "fake", "max_tokens": 30, "ignore_eos": True}
    requests = [
        {
            "custom_id": str(i),
            "method": "POST",
            "url": "/v1/completions",
            "body": {**body, "prompt": f"{i} " * 5},
        }
        for i in range(count)
    ]
    return "\n".join(json.dumps(line) for line in requests).encode()


def begun(server: ServerProcess) -> str:
    """The id of a batch with some results, but not all."""
    api = client(server)
    file = api.files.create(file=("in.jsonl", lines()), purpose="batch")
    batch = api.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
    server.wait_for(lambda: api.batches.retrieve(batch.id).request_counts.completed > 20)
    assert api.batches.retrieve(batch.id).status == "in_progress"
    return batch.id


def check_whole(server: ServerProcess, batch_id: str) -> None:
    """It completes, with one result for each line in the order of the input."""
    api = client(server)
    server.wait_for(lambda: api.batches.retrieve(batch_id).status == "completed", 4 * PATIENCE_S)
    batch = api.batches.retrieve(batch_id)
    assert batch.request_counts.completed == NUM_LINES
    found = [json.loads(line) for line in api.files.content(batch.output_file_id).text.splitlines()]
    assert [each["custom_id"] for each in found] == [str(i) for i in range(NUM_LINES)]
    assert batch.error_file_id is None


@pytest.fixture
def models(tmp_path):
    write_model(tmp_path / "models" / "fake")
    return tmp_path / "models"


def test_a_killed_worker_a_killed_engine_and_a_reload(models):
    with ServerProcess(models, WORKERS="2") as server:
        server.ready()
        batch_id = begun(server)
        for worker in server.children()[1]:
            worker.kill()  # one of them runs the batch
        server.ready()
        server.host().kill()
        server.ready()
        server.reload()
        check_whole(server, batch_id)


def test_a_killed_server_goes_on_when_it_is_started_again(models, tmp_path):
    settings = {"WORKERS": "2", "FILES": str(tmp_path / "files")}
    with ServerProcess(models, **settings) as server:
        server.ready()
        batch_id = begun(server)
        processes = [server.process.pid, *(host.pid for host in server.hosts()), *server.worker_pids()]
        for pid in processes:
            psutil.Process(pid).kill()
        server.process.wait()
    with ServerProcess(models, **settings) as server:
        server.ready()
        check_whole(server, batch_id)


def test_a_run_without_a_server_goes_on_where_it_was_stopped(models, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(lines())
    command = [sys.executable, "-m", "server.cli", "run-batch", "--models", str(models)]
    command += ["-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl")]
    first = subprocess.Popen(command, stderr=subprocess.PIPE)
    database = tmp_path / "out.jsonl.progress" / "batches.sqlite"
    asyncio.run(until(lambda: results(database) > 20))
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 1
    assert b"the same command goes on with the rest" in said
    before = results(database)
    assert 20 < before < NUM_LINES
    again = subprocess.run(command, capture_output=True, check=True, timeout=4 * PATIENCE_S)
    assert f"{NUM_LINES} requests, 0 failed".encode() in again.stdout
    batch_results = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [result["custom_id"] for result in batch_results] == [str(i) for i in range(NUM_LINES)]
    assert not database.exists()


def results(database) -> int:
    if not database.exists():
        return 0
    try:
        with sqlite3.connect(database) as db:
            return db.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
