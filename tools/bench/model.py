"""The benchmark's model, a Qwen3 with random weights or the demo, in every form that a contender reads.

Each form is made once.  Knows shapes and files; knows nothing of servers or of what is measured.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench.contenders import ROOT, without_settings
from tools.bench.peers.table import Peer
from tools.bench.weights import write_from_onnx, write_random

QWEN3_06B = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": 151_935,
}
TINY = QWEN3_06B | {
    "vocab_size": 2048,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 128,
    "eos_token_id": 2047,
}
SHAPES = {"qwen3-0.6b": QWEN3_06B, "tiny": TINY}
"""Models with random weights; `tiny` tries the benchmark itself, and its figures mean nothing."""
DEMO = ROOT / "model_repo" / "braid-demo" / "model"
NAMES = (*SHAPES, "braid-demo")


class NotMade(Exception):
    """A form of the model could not be made; the message says why."""


@dataclass(frozen=True)
class Model:
    """The forms of one model, in one folder."""

    folder: Path
    name: str
    stage: Callable[[str], None]

    @property
    def config(self) -> dict[str, Any]:
        return SHAPES.get(self.name) or json.loads((DEMO / "config.json").read_text())

    def huggingface(self) -> Path:
        """Weights in bfloat16 and a tokenizer, as transformers saves them."""
        made, unfinished = self.folder / "huggingface", self.folder / "huggingface.unfinished"
        if not made.exists():
            self.stage("making weights in bfloat16")
            shutil.rmtree(unfinished, ignore_errors=True)
            if self.name in SHAPES:
                write_random(self.config, unfinished)
            else:
                write_from_onnx(DEMO, unfinished)
            unfinished.rename(made)
        return made

    @property
    def embedding_values(self) -> int:
        return self.config["vocab_size"] * self.config["hidden_size"]

    def repository(self, weights: str) -> Path:
        """A model repository of this model alone, as OpenVINO IR with int8 or fp16 weights.

        Takes a few minutes and 6 GB of memory for qwen3-0.6b.
        """
        made = self.folder / f"models-{weights}"
        if not (made / self.name / "model" / "openvino_model.xml").exists():
            from tools.export.decoder import export_decoder

            export_decoder(str(self.huggingface()), made / self.name / "model", weights, self.stage)
        return made

    def of(self, peer: Peer, python: Path) -> Path:
        """The form that `peer` reads, converted by its own environment.  Raises NotMade."""
        source, target = self.huggingface(), self.folder / peer.form.format(name=self.name)
        if (target / peer.made).exists():
            return target
        self.stage(f"making {target.name}/{peer.made}")
        target.mkdir(parents=True, exist_ok=True)
        arguments = [part.format(source=source, target=target) for part in peer.convert]
        done = subprocess.run(
            [str(python), "-m", *arguments],
            cwd=ROOT,
            env=without_settings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode or not (target / peer.made).exists():
            raise NotMade(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "no reason given")
        return target


def weight_bytes(folder: Path) -> int:
    """The weights of a form are its largest file."""
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
