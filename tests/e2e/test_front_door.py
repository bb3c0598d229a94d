"""What a server does before a request reaches an endpoint: start, refuse to start, limit the request head."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess


def talk(server, *pieces):
    """Send pieces on one connection; what came back until the server closed it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def request(*headers, path="/health"):
    lines = [f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]
    return "\r\n".join(lines).encode()


def test_banner_is_printed_once_and_its_curl_line_works(server):
    log = server.log()
    assert log.count("Braid is ready at") == 1
    command = log[log.index("curl ") : log.index("from openai")]
    result = subprocess.run(["sh", "-c", f"{command.strip()} -s -m 60"], capture_output=True, check=True)
    assert b'"chat.completion"' in result.stdout


def test_headers_of_a_reasonable_size_pass(server):
    assert talk(server, request("X-Long: " + "a" * 30000, "Connection: close")).startswith(b"HTTP/1.1 200")


def test_too_large_a_head_is_431(server):
    head = request(*[f"X-{number}: {'a' * 1000}" for number in range(70)])
    assert talk(server, head).startswith(b"HTTP/1.1 431")


@pytest.mark.breadth
def test_a_request_that_never_arrives_is_408(models_dir):
    """All at once, since each waits for the whole time; long enough for this process to send its pieces."""
    post = request("Content-Length: 100", "Content-Type: application/json", path="/v1/completions")
    sent = [[b"GET /health HT"], [], [request(), b"GET /hea"], [post.replace(b"GET", b"POST") + b"{"]]
    with ServerProcess(models_dir, HEADER_TIMEOUT_S="4", BODY_TIMEOUT_S="4") as server:
        server.ready()
        with ThreadPoolExecutor(len(sent)) as threads:
            half, nothing, served, body = threads.map(lambda pieces: talk(server, *pieces), sent)
    assert half.startswith(b"HTTP/1.1 408")
    assert nothing == b""
    assert served.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in served
    assert body.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("name", ["BRAID_PORT", "BRAID_PROT"])
def test_wrong_setting_stops_the_start_and_is_named(tmp_path, name):
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    environment = {**os.environ, name: "eighty"}
    result = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert result.returncode != 0
    assert name in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="needs Linux")
def test_workers_have_a_lower_priority_than_the_engine(server):
    host, workers = server.children()
    assert {os.sched_getscheduler(worker.pid) for worker in workers} == {os.SCHED_BATCH}
    assert os.sched_getscheduler(host.pid) == os.SCHED_OTHER
