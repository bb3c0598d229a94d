"""Who is measured: Braid over HTTP, Braid's engine alone, openvino_genai; each in processes of its own.

Knows how each is started, asked and stopped, and what it costs; knows nothing of tables or statistics.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import psutil

from tools.bench.client import request_over_http
from tools.bench.load import Load, Settings, Timings
from tools.bench.model import MODEL_NAME

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 180.0
SAMPLE_S = 0.25


class Contender(Protocol):
    process: subprocess.Popen[str]

    def run(self, load: Load) -> Timings: ...

    def stop(self) -> None: ...


class Child:
    """An engine in a process of its own (`tools/bench/child.py`)."""

    def __init__(self, kind: str, model: Path, settings: Settings) -> None:
        command = [sys.executable, "-m", "tools.bench.child", kind, str(model), json.dumps(asdict(settings))]
        self.process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answer("ready")

    def run(self, load: Load) -> Timings:
        assert self.process.stdin is not None
        self.process.stdin.write(load.write() + "\n")
        self.process.stdin.flush()
        return Timings.read(self._answer("["))

    def _answer(self, start: str) -> str:
        """The next line that begins with `start`; libraries may print others."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        raise RuntimeError(f"{self.process.args} ended")

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


class Server:
    """Braid as people start it: gunicorn, workers and the engine host, with one model."""

    def __init__(self, models: Path, settings: Settings, workers: int) -> None:
        (models / MODEL_NAME / "graph.yaml").write_text(_graph(settings, _block_bytes(models, settings)))
        self.port = _free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
        environment |= {
            "BRAID_PORT": str(self.port),
            "BRAID_MODELS": str(models),
            "BRAID_WORKERS": str(workers),
        }
        log_path = models.parent / "server.log"
        command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
        with log_path.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, text=True, stdout=log, stderr=log
            )
        self._wait_until_ready(log_path)

    def run(self, load: Load) -> Timings:
        return request_over_http(self.port, MODEL_NAME, load)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def _wait_until_ready(self, log: Path) -> None:
        begin = time.monotonic()
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - begin > READY_TIMEOUT_S:
                self.process.kill()
                raise RuntimeError(f"Braid did not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.2)

    def _answers(self) -> bool:
        """Whether the model is ready (a repository without a ready model answers 503)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()


class Meter:
    """What the processes of a contender take, its children included."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._root = psutil.Process(process.pid)
        self._peak_bytes = 0
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu_s(self) -> float:
        """Processor seconds of all living processes since they started."""
        return sum(times.user + times.system for times in (one.cpu_times() for one in self._tree()))

    @property
    def peak_bytes(self) -> int:
        return self._peak_bytes

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            try:
                self._peak_bytes = max(self._peak_bytes, sum(one.memory_info().rss for one in self._tree()))
            except psutil.NoSuchProcess:
                continue  # one of them ended between being listed and being read

    def _tree(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]


def _graph(settings: Settings, block_bytes: int) -> str:
    """The graph that gives Braid the same scheduling and the same cache as the others."""
    memory_gb = settings.num_blocks * block_bytes / (1 << 30)
    return f"""version: 1
task: completion
nodes:
  tokens: {{type: tokenize, from: request.prompts, tokenizer: model/tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: {settings.max_sequences}
    max_step_tokens: {settings.max_step_tokens}
    cache: {{memory_gb: {memory_gb!r}, reuse_prefixes: false}}
    body:
      logits: {{type: model, from: step, path: model/openvino_model.xml, kv_cache: {settings.kv_cache}}}
      next: {{type: sampler, from: logits}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
"""


def _block_bytes(models: Path, settings: Settings) -> int:
    """Bytes of a block, asked of a session in a process of its own, so that its memory is not counted."""
    program = (
        "import sys; from pathlib import Path; "
        "from pipelines.backends.openvino.session import OpenVINOSession, OpenVINOSettings; "
        "print(OpenVINOSession(Path(sys.argv[1]), OpenVINOSettings(kv_cache=sys.argv[2])).block_bytes)"
    )
    path = models / MODEL_NAME / "model" / "openvino_model.xml"
    command = [sys.executable, "-c", program, str(path), settings.kv_cache]
    return int(subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
