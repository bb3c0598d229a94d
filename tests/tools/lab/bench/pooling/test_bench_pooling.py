"""The pooling part of the benchmark: its texts, what it asks, and what it makes of the answers."""

from __future__ import annotations

import base64
import json
import statistics
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import psutil
import pytest
from patience import PATIENCE_S

from tools.client.http_client import RequestFailed
from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.pooling.load import Load, OverHTTP, Timings, run_load
from tools.lab.bench.pooling.measuring import Workload, asleep, measure
from tools.lab.bench.pooling.systems import ALONE, BRAID, FROM_TEXT
from tools.lab.bench.pooling.texts import MOST_WORDS, make_texts

NOBODY = 2**22 + 1
"""No process has this number."""


class Steady:
    """A system that takes so long for each text; one that is `broken` fails."""

    def __init__(self, text_s, broken=False):
        self.text_s, self.broken, self.loads = text_s, broken, []
        self.process = SimpleNamespace(pid=NOBODY)

    def take(self, load):
        if self.broken:
            raise SystemFailed("no")
        self.loads.append(load)
        return Timings(self.text_s * len(load.texts), [self.text_s] * len(load.requests), [1.0, 0.0])


def test_texts_are_the_same_for_a_seed_and_of_mixed_lengths():
    texts = make_texts(500, 1)
    assert texts == make_texts(500, 1) != make_texts(500, 2)
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[0] <= 5
    assert 20 <= statistics.median(lengths) <= 35
    assert 120 <= lengths[-1] <= MOST_WORDS


def test_every_text_is_asked_once_in_requests_of_one_size():
    asked = []

    def embed(texts):
        asked.append(texts)
        return [[float(len(text))] for text in texts]

    timings = run_load(Load(list("abcdefg"), per_request=3, streams=2), embed)
    assert sorted(asked) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert len(timings.request_s) == 3
    assert timings.first == [1.0]


def test_the_first_round_does_not_count_and_ratios_are_braids():
    systems = {BRAID: Steady(0.001), "slow": Steady(0.004), "broken": Steady(0, broken=True)}
    rows = measure(systems, {"some": Workload(8, 2, 1)}, rounds=2, note=lambda text: None)
    assert [row["system"] for row in rows] == [BRAID, "slow"]
    assert rows[1]["ratio"] == pytest.approx(4)
    assert rows[1]["texts_per_s"] == pytest.approx(250)
    assert rows[1]["p99_ms"] == pytest.approx(4)
    measured = [load for load in systems["slow"].loads if len(load.texts) == 8]
    assert len(measured) == 3
    assert measured[0] == measured[2]


def test_the_model_alone_takes_only_what_is_for_it():
    systems = {BRAID: Steady(0.001), ALONE: Steady(0.001), FROM_TEXT: Steady(0.001)}
    workloads = {"many": Workload(4, 2, 1), "one": Workload(4, 1, 1, alone=True)}
    rows = measure(systems, workloads, rounds=1, note=lambda text: None)
    for name in (ALONE, FROM_TEXT):
        assert [row["workload"] for row in rows if row["system"] == name] == ["one"]


def test_what_one_text_takes_is_compared_with_what_is_aimed_at():
    systems = {BRAID: Steady(0.005), ALONE: Steady(0.003)}
    (ours, its) = measure(systems, {"one": Workload(4, 1, 1, alone=True)}, 2, lambda text: None)
    assert ours["over_ms"] == pytest.approx(5 - (1.15 * 3 + 0.7))
    assert "over_ms" not in its


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = [base64.b64encode(struct.pack("<2f", len(text), 0.5)).decode() for text in body["input"]]
        status = 200 if body["model"] == "minilm" else 404
        data = json.dumps({"data": [{"embedding": row} for row in rows]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def port():
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_servers_are_asked_for_base64(port):
    embed = OverHTTP(port, "minilm")
    assert embed(["a", "bcd"]) == [[1.0, 0.5], [3.0, 0.5]]
    embed._client.close()


def test_a_servers_refusal_is_told(port):
    embed = OverHTTP(port, "other")
    with pytest.raises(RequestFailed, match="404"):
        embed(["a"])
    embed._client.close()


def test_idle_systems_are_stopped():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with asleep([SimpleNamespace(process=process), SimpleNamespace(process=SimpleNamespace(pid=NOBODY))]):
            deadline_s = (
                time.monotonic() + PATIENCE_S
            )  # a process that runs on another core stops a moment later
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                assert time.monotonic() < deadline_s
        assert psutil.Process(process.pid).status() != psutil.STATUS_STOPPED
        process.communicate(b"\n")
