"""The benchmark of short requests: its client, and a short run of all of it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools.lab.bench.overhead.__main__ import Measured, _lines
from tools.lab.bench.overhead.client import BadReply, OverHTTP, Question

ROOT = Path(__file__).resolve().parents[5]
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


@pytest.fixture
def serve():
    """`serve(reply)` → (port, the requests), answered with one reply each, in two pieces."""
    listeners = []

    def start(reply):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        requests = []

        def talk(connection):
            with connection:
                while data := connection.recv(1000):
                    requests.append(data)
                    connection.sendall(reply[:10])
                    connection.sendall(reply[10:])

        def accept():
            while listener.fileno() >= 0:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1], requests

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_each_client_sends_its_requests(serve):
    port, requests = serve(REPLY)
    assert len(OverHTTP(port, Question("/path", b"body"))(3, 4)) == 12
    assert len(requests) == 12
    assert {each.split(b"\r\n")[0] for each in requests} == {b"POST /path HTTP/1.1"}
    assert {each.rpartition(b"\r\n\r\n")[2] for each in requests} == {b"body"}


def test_a_refusal_is_no_reply(serve):
    port, _ = serve(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno")
    with pytest.raises(BadReply, match="503"):
        OverHTTP(port, Question("/path", b""))(1, 1)


def test_ratios_are_of_pairs():
    pairs = [(Measured(2, 100, 10), Measured(1, 50, 10)), (Measured(4, 100, 10), Measured(4, 100, 5))]
    lines = _lines("embed", 1, pairs)
    assert lines[0].split() == ["embed", "1", "other", "3.00", "100", "10"]
    assert lines[2].split(": ")[1] == "0.75 (0.50 – 1.00), 0.75 (0.50 – 1.00), 0.75 (0.50 – 1.00)"


@pytest.mark.breadth
def test_a_short_run():
    options = ["--clients", "2", "--requests", "4", "--rounds", "1", "--kind", "bytes", "--kind", "rerank"]
    run = subprocess.run(
        [sys.executable, "-m", "tools.lab.bench.overhead", str(ROOT), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert re.findall(r"^(\w+) +2  (\w+)", run.stdout, re.MULTILINE) == [
        ("bytes", "other"),
        ("bytes", "this"),
        ("rerank", "other"),
        ("rerank", "this"),
    ]
