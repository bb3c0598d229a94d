"""What loaded models cost: one server with 1 to 20 models, the same number of streams spread over them.

The models are copies of braid-demo, each with weights and a cache of its own.  No peer serves them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.client.http_client import local_client
from tools.lab.bench.base.client import request_over_http
from tools.lab.bench.base.load import Load
from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.entries import BRAID
from tools.lab.bench.making import make_load
from tools.lab.bench.meter import resident_bytes
from tools.lab.bench.report import Row
from tools.lab.bench.workloads import Workload

SHIPPED = ROOT / "model_repo" / "braid-demo"
COUNTS = (1, 2, 5, 10, 20)
STREAMS = 20
WORKLOAD = Workload(STREAMS, STREAMS, prompt_tokens=64, output_tokens=64)
VOCAB_SIZE = 2048
POLL_S = 0.1


def measure(folder: Path, rounds: int, note: Callable[[str], None]) -> list[Row]:
    """A row `models COUNT` for each number of models; `folder` holds their repositories."""
    return [_served(folder / str(count), count, rounds, note) for count in COUNTS]


def _served(repository: Path, count: int, rounds: int, note: Callable[[str], None]) -> Row:
    names = [f"demo-{number}" for number in range(count)]
    shutil.rmtree(repository, ignore_errors=True)
    for name in names:
        shutil.copytree(SHIPPED, repository / name)
    port = free_port()
    environment = without_settings() | {
        "BRAID_PORT": str(port),
        "BRAID_MODELS": str(repository),
        "BRAID_WORKERS": "1",
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    began = time.monotonic()
    server = Served(command, environment, port, names[0], repository.with_suffix(".log"))
    try:
        server.wait_until_ready()
        _wait_for(port, names)
        ready_s = time.monotonic() - began
        _tokens_per_s(port, names, seed=0)
        rates = [_tokens_per_s(port, names, seed) for seed in range(1, rounds + 1)]
        host, workers = resident_bytes(server.process)
    finally:
        server.stop()
    note(f"{count} models: {statistics.median(rates):.0f} tokens/s, engine host {host / 1e6:.0f} MB")
    return {
        "workload": f"models {count}",
        "system": BRAID,
        "tokens_per_s": statistics.median(rates),
        "host_mb": host / 1e6,
        "workers_mb": workers / 1e6,
        "ready_s": ready_s,
    }


def _wait_for(port: int, names: list[str]) -> None:
    """Wait until every model is loaded: a server is ready when the first one is."""
    client = local_client(port)
    while not all(client.answers(f"/v2/models/{name}/ready") for name in names):
        time.sleep(POLL_S)


def _tokens_per_s(port: int, names: list[str], seed: int) -> float:
    """Output tokens per second of all models together, each with its part of the streams."""
    whole = make_load(WORKLOAD, seed, VOCAB_SIZE)
    parts = [
        Load(STREAMS // len(names), whole.requests[number :: len(names)]) for number in range(len(names))
    ]
    began = time.perf_counter()
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name, load: request_over_http(port, name, load), names, parts))
    return whole.output_tokens / (time.perf_counter() - began)
