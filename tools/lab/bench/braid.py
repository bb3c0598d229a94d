"""Starts Braid for the benchmark as usual, with gunicorn, workers and the engine host, and one model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.model import GGUF, Model

BLOCK_BYTES = """
import sys
from pathlib import Path
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
print(OpenVINOSession(Path(sys.argv[1]), OpenVINOSettings(kv_cache=sys.argv[2])).shape.block_bytes)
"""


IR, ONNX = "openvino_model.xml", "model.onnx"
"""A model's file in its folder."""


@dataclass(frozen=True)
class Variant:
    """One way to serve the model: its weights, and the line of its graph that drafts tokens.

    `reads_draft`: that line uses a draft model.
    """

    weights: str = "int8"
    drafted: str = ""
    reads_draft: bool = False

    @property
    def file(self) -> str:
        return ONNX if self.weights == GGUF else IR


VARIANTS = {
    "braid": Variant(),
    "braid-lookup": Variant(drafted="{type: lookup, from: step}"),
    "braid-draft": Variant(drafted=f"{{type: draft, from: step, path: draft/{IR}}}", reads_draft=True),
    "braid-fp16": Variant(weights="fp16"),
    "braid-gguf": Variant(weights=GGUF),
}


def braid(name: str, model: Model, settings: Settings, workers: int, log: Path) -> Served:
    """Braid as the variant `name` of `model`; makes the model's formats.  Raises NotMade."""
    variant = VARIANTS[name]
    models = model.folder / "served" / name
    repository(models / model.name, model, variant, settings)
    port = free_port()
    environment = without_settings() | {
        "BRAID_PORT": str(port),
        "BRAID_MODELS": str(models),
        "BRAID_WORKERS": str(workers),
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    return Served(command, environment, port, model.name, log)


def repository(folder: Path, model: Model, variant: Variant, settings: Settings) -> None:
    """A model repository with the variant; its files are links to those of the model's formats."""
    parts = {"model": model.repository(variant.weights) / model.name / "model"}
    if variant.reads_draft:
        parts["draft"] = model.draft()
    shutil.rmtree(folder, ignore_errors=True)
    for part, model_folder in parts.items():
        shutil.copytree(model_folder, folder / part, copy_function=os.link)
    files = {"model": variant.file, "draft": IR}
    block_bytes = sum(
        _block_bytes(model_folder / files[part], settings.kv_cache) for part, model_folder in parts.items()
    )
    memory_gb = settings.num_blocks * block_bytes / (1 << 30)
    (folder / "graph.yaml").write_text(graph(variant, settings, memory_gb))


def graph(variant: Variant, settings: Settings, memory_gb: float) -> str:
    """The graph with the same scheduling and cache settings as the other systems."""
    drafted = f"      drafted: {variant.drafted}\n" if variant.drafted else ""
    source = "drafted" if variant.drafted else "step"
    opened = f"path: model/{variant.file}, kv_cache: {settings.kv_cache}"
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
{drafted}      logits: {{type: model, from: {source}, {opened}}}
      allowed: {{type: grammar, from: logits, tokenizer: model/tokenizer.json}}
      next: {{type: sampler, from: allowed}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
"""


def _block_bytes(file: Path, kv_cache: str) -> int:
    """Bytes of a block, from a session in a separate process, so that its memory is not counted."""
    folder = file.parent
    known = folder.with_name(f"{folder.name}.block_bytes.{kv_cache}")
    if not known.exists():
        command = [sys.executable, "-c", BLOCK_BYTES, str(file), kv_cache]
        known.write_text(subprocess.run(command, cwd=ROOT, check=True, text=True, capture_output=True).stdout)
    return int(known.read_text())
