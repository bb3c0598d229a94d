"""The status feed of a real server: read while clients stream, while its engine dies, and by whom it may be."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from closed_clients import closed_later
from openai import OpenAI
from paced_model import write_model
from patience import PATIENCE_S
from server_process import ServerProcess

pytestmark = pytest.mark.breadth
MARKER = "xyzzyplugh"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Two workers, so that the request and its watcher are often in different ones."""
    models = tmp_path_factory.mktemp("watched") / "models"
    write_model(models / "fake")
    with ServerProcess(models, WORKERS="2") as running:
        running.ready()
        yield running


@contextmanager
def watched(server) -> Iterator[list[dict[str, Any]]]:
    """The snapshots that come while inside."""
    seen: list[dict[str, Any]] = []
    with httpx.stream("GET", f"{server.url}/v1/status?stream=1", timeout=PATIENCE_S) as reply:

        def read() -> None:
            try:
                for line in reply.iter_lines():
                    if line.startswith("data: "):
                        seen.append(json.loads(line.removeprefix("data: ")))
            except httpx.HTTPError:
                return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield seen


def stream(server, max_tokens):
    client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0))
    return client.completions.with_raw_response.create(
        model="fake", prompt=MARKER, max_tokens=max_tokens, stream=True, extra_body={"ignore_eos": True}
    )


def test_a_request_is_seen_cancelled_and_recorded_whichever_worker_has_it(server):
    with watched(server) as seen:
        for _ in range(4):
            raw = stream(server, 4000)
            name, chunks = raw.headers["x-request-id"], raw.parse()
            server.wait_for(
                lambda name=name: any(
                    request["id"] == name for snapshot in seen for request in snapshot["requests"]
                )
            )
            assert httpx.post(f"{server.url}/v1/requests/{name}/cancel").json() == {
                "id": name,
                "cancelled": True,
            }
            assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "abort"
            server.wait_for(lambda name=name: any(request["id"] == name for request in seen[-1]["recent"]))
            record = next(request for request in seen[-1]["recent"] if request["id"] == name)
            assert (record["finish"], record["stream"]) == ("abort", True)
            assert {span["path"] for span in record["spans"]} == {
                node["path"] for node in seen[-1]["nodes"] if "." not in node["path"]
            }
    assert MARKER not in json.dumps(seen)


def test_a_killed_engine_is_down_and_back_in_one_stream(server):
    with watched(server) as seen:
        server.wait_for(lambda: seen and seen[-1]["engines"][0]["state"] == "ready")
        pid = seen[-1]["engines"][0]["pid"]
        recent = {request["id"] for request in seen[-1]["recent"]}
        server.process.send_signal(signal.SIGSTOP)  # it would start the engine again within a second
        try:
            server.host().kill()
            server.wait_for(lambda: seen[-1]["engines"][0]["state"] == "down")
            assert {model["state"] for model in seen[-1]["models"]} <= {"down", "loading"}
        finally:
            server.process.send_signal(signal.SIGCONT)
        server.wait_for(lambda: seen[-1]["engines"][0]["state"] == "ready")
        server.wait_for(lambda: [model["state"] for model in seen[-1]["models"]] == ["ready"])
    assert seen[-1]["engines"][0]["pid"] != pid
    assert recent <= {request["id"] for request in seen[-1]["recent"]}  # workers have sent them again


@pytest.mark.breadth
def test_a_server_that_drains_ends_the_stream(tmp_path):
    write_model(tmp_path / "fake")
    with ServerProcess(tmp_path, WORKERS="1") as running:
        running.ready()
        with httpx.stream("GET", f"{running.url}/v1/status?stream=1", timeout=PATIENCE_S) as reply:
            lines = reply.iter_lines()
            assert next(lines).startswith("data: ")
            running.process.terminate()
            for _ in lines:
                pass  # ends, without an error of the connection
        assert running.process.wait(PATIENCE_S) == 0
