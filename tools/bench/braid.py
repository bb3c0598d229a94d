"""Braid as people start it, for the benchmark: gunicorn, workers and the engine host, with one model.

Knows Braid's settings and graphs; nothing of its peers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.bench.contenders import ROOT, Served, free_port, without_settings
from tools.bench.load import Settings

BLOCK_BYTES = """
import sys
from pathlib import Path
from pipelines.backends.openvino.session import OpenVINOSession, OpenVINOSettings
print(OpenVINOSession(Path(sys.argv[1]), OpenVINOSettings(kv_cache=sys.argv[2])).block_bytes)
"""


def braid(models: Path, name: str, settings: Settings, workers: int, log: Path) -> Served:
    """Braid with the model repository `models`, of which it serves `name`."""
    memory_gb = settings.num_blocks * _block_bytes(models / name / "model", settings.kv_cache) / (1 << 30)
    (models / name / "graph.yaml").write_text(graph(settings, memory_gb))
    port = free_port()
    environment = without_settings() | {
        "BRAID_PORT": str(port),
        "BRAID_MODELS": str(models),
        "BRAID_WORKERS": str(workers),
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    return Served(command, environment, port, name, log)


def graph(settings: Settings, memory_gb: float) -> str:
    """The graph that gives Braid the same scheduling and the same cache as the others."""
    return f"""version: 1
task: completion
nodes:
  tokens: {{type: tokenize, from: request.prompts, tokenizer: model/tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: {settings.max_sequences}
    max_step_tokens: {settings.max_step_tokens}
    cache: {{memory_gb: {memory_gb!r}, reuse_prefixes: true}}
    body:
      logits: {{type: model, from: step, path: model/openvino_model.xml, kv_cache: {settings.kv_cache}}}
      allowed: {{type: grammar, from: logits, tokenizer: model/tokenizer.json}}
      next: {{type: sampler, from: allowed}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
"""


def _block_bytes(folder: Path, kv_cache: str) -> int:
    """Asked once of a session in a process of its own, so that its memory is not counted."""
    known = folder.parent / f"block_bytes.{kv_cache}"
    if not known.exists():
        command = [sys.executable, "-c", BLOCK_BYTES, str(folder / "openvino_model.xml"), kv_cache]
        known.write_text(subprocess.run(command, cwd=ROOT, check=True, text=True, capture_output=True).stdout)
    return int(known.read_text())
