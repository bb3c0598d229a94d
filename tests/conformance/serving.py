"""Braid serving exports of the checkpoints that the recordings were made with, set as that server was.

Knows `braid export`, graph files and processes; knows nothing of requests.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from server_process import ServerProcess

MODELS = Path(__file__).parent / "models"
CHECKPOINT = "tiny-qwen3"
READY_S = 60

ENGINES = {
    "openvino": "path: model/openvino_model.xml, engine: openvino, precision: f32, kv_cache: f32",
    "onnxruntime": "path: model/model.onnx, engine: onnxruntime",
}
"""Engine → the settings of the model's line that make it exact."""
SAMPLERS = {"neutral": "", "own": ", defaults: model/generation_config.json"}
PARSERS = {"neutral": "tools: hermes", "own": "reasoning: qwen3"}
KEYS = {"neutral": "", "own": "sk-test,sk-two"}
"""How the server was set → the sampler's settings, the reply's, the keys that clients may send."""

GRAPH = """\
version: 1
task: chat
nodes:
  prompt: {{type: chat_template, template: model/chat_template.jinja}}
  tokens: {{type: tokenize, from: prompt, tokenizer: model/tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: 8
    max_context: 512
    cache: {{memory_gb: 0.05}}
    body:
      logits: {{type: model, from: step, device: cpu, {model}}}
      allowed: {{type: grammar, from: logits, tokenizer: model/tokenizer.json}}
      next: {{type: sampler, from: allowed{sampler}}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
  reply: {{type: parse_reply, from: text, {parsers}}}
"""
ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: tiny, from: request}\n"


def export(engine: str, folder: Path) -> Path:
    """The checkpoint in float32, in the form that `engine` runs exactly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves
        from tools.export.decoder import export_decoder
        from tools.export.onnx_decoder import export_onnx

        if engine == "openvino":
            export_decoder(str(MODELS / CHECKPOINT), folder, "fp32", lambda stage: None)
        else:
            export_onnx(str(MODELS / CHECKPOINT), folder, "fp32")
    return folder


def write_repository(models: Path, exported: Path, engine: str, settings: str) -> Path:
    """A model repository with `tiny` and its second name."""
    shutil.copytree(exported, models / "tiny" / "model")
    graph = GRAPH.format(model=ENGINES[engine], sampler=SAMPLERS[settings], parsers=PARSERS[settings])
    (models / "tiny" / "graph.yaml").write_text(graph)
    (models / "tiny-alias").mkdir()
    (models / "tiny-alias" / "graph.yaml").write_text(ALIAS)
    return models


@contextmanager
def serving(models: Path, settings: str) -> Iterator[ServerProcess]:
    """A server over a repository, ready."""
    with ServerProcess(models, WORKERS="1", API_KEYS=KEYS[settings]) as server:
        _wait_ready(server)
        yield server


def _wait_ready(server: ServerProcess) -> None:
    end_s = time.monotonic() + READY_S
    while not _is_ready(server):
        assert time.monotonic() < end_s, server.log()
        assert server.process.poll() is None, server.log()
        time.sleep(0.05)


def _is_ready(server: ServerProcess) -> bool:
    try:
        ready = httpx.get(f"{server.url}/v2/health/ready", timeout=5).status_code == 200
        return ready and httpx.get(f"{server.url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
