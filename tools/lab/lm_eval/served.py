"""The ways in which Braid serves the weights: their type, and the types of activations and of the cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAME = "model"
"""What every one of them is called."""
GGUF = "gguf"
EXACT = ", precision: f32, kv_cache: f32"
U8_CACHE = ", precision: f32, kv_cache: u8"
GRAPH = """\
version: 1
task: completion
nodes:
  tokens: {{type: tokenize, from: request.prompts, tokenizer: model/tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: 16
    cache: {{memory_gb: 0.5}}
    body:
      logits: {{type: model, from: step, path: model/{file}, device: cpu, threads: {threads}{types}}}
      next: {{type: sampler, from: logits}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
"""


@dataclass(frozen=True)
class Served:
    """`weights`: how `braid export` stores them, or the GGUF file's own; `types` of activations and cache.

    `exact`: log-likelihoods are to be those of transformers.
    """

    title: str
    weights: str
    types: str = ""
    exact: bool = False


SERVED = {
    "f32": Served("f32 weights, activations and cache", "fp32", EXACT, exact=True),
    "gguf-f32": Served("the GGUF file's blocks, f32 activations and cache", GGUF, EXACT, exact=True),
    "gguf": Served("the GGUF file's blocks, the device's types (default)", GGUF),
    "u8-cache": Served("f32 weights and activations, u8 cache", "fp32", U8_CACHE),
    "int8": Served("int8 weights, f32 activations and cache", "int8", EXACT),
    "int4": Served("int4 weights, f32 activations and cache", "int4", EXACT),
    "default": Served("int8 weights, the device's types (default)", "int8"),
}


def prepare(served: Served, source: Path, models: Path, threads: int) -> Path:
    """The folder of models to serve, with one graph; `source`, a GGUF file or a folder, is exported once."""
    folder = models / served.weights
    model = folder / NAME / "model"
    if not (folder / NAME / "graph.yaml").exists():
        shutil.rmtree(folder, ignore_errors=True)
        weights = [] if served.weights == GGUF else ["--weights", served.weights]
        export = [sys.executable, "-m", "tools.export", str(source), *weights, "--name", NAME]
        subprocess.run([*export, "--models", str(folder)], check=True)
    file = next(name for name in ("openvino_model.xml", "model.onnx") if (model / name).exists())
    graph = GRAPH.format(file=file, types=served.types, threads=threads)
    (folder / NAME / "graph.yaml").write_text(graph, encoding="utf-8")
    return folder
