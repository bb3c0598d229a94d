"""The benchmark's model, a Qwen3 that is a bigram model, the demo or a GGUF file, in every system's format.

Each format is made once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.lab.bench.base.systems import ROOT, without_settings
from tools.lab.bench.bigram_chain import similar_successors, successors
from tools.lab.bench.peers.table import Peer
from tools.lab.bench.shapes import AGREEMENT, DRAFTS, RECIPE, SHAPES
from tools.lab.bench.weights import write_bigram_model, write_from_onnx

DEMO = ROOT / "model_repo" / "braid-demo" / "model"
SMOLLM2, SMOLLM2_FILE = "smollm2", ROOT / "model_repo" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
"""The model of `make demo-chat`, for servers of GGUF files alone."""
SMOLLM2_CONFIG = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
NAMES = (*SHAPES, "braid-demo", SMOLLM2)
GGUF = "gguf"


class NotMade(Exception):
    """A format of the model could not be made; the message has the reason."""


@dataclass(frozen=True)
class Model:
    """The formats of one model, in one folder."""

    folder: Path
    name: str
    stage: Callable[[str], None]

    @classmethod
    def within(cls, cache: Path, name: str, stage: Callable[[str], None]) -> Model:
        """The model in the folder of `cache` for its fingerprint."""
        return cls(cache / f"{name}-{_fingerprint(name)}", name, stage)

    @property
    def config(self) -> dict[str, Any]:
        if self.name == SMOLLM2:
            return SMOLLM2_CONFIG
        return SHAPES.get(self.name) or json.loads((DEMO / "config.json").read_text())

    @property
    def is_bigram(self) -> bool:
        """Whether a token of its output follows from the last one alone (`bigram_chain.py`)."""
        return self.name in SHAPES

    def huggingface(self) -> Path:
        """Weights in bfloat16 and a tokenizer, as transformers saves them.  Raises NotMade."""
        if self.name == SMOLLM2:
            raise NotMade(f"{SMOLLM2} is a GGUF file alone")
        converted, unfinished = self.folder / "huggingface", self.folder / "huggingface.unfinished"
        if not converted.exists():
            self.stage("making weights in bfloat16")
            shutil.rmtree(unfinished, ignore_errors=True)
            if self.is_bigram:
                write_bigram_model(self.config, successors(self.config["vocab_size"]), unfinished)
            else:
                write_from_onnx(DEMO, unfinished)
            unfinished.rename(converted)
        return converted

    @property
    def embedding_values(self) -> int:
        return self.config["vocab_size"] * self.config["hidden_size"]

    @property
    def gathered_values(self) -> int:
        """The values of a table that only the embedding reads: one row of it for a token."""
        return 0 if self.config["tie_word_embeddings"] else self.embedding_values

    def repository(self, weights: str) -> Path:
        """A model repository of this model alone, as OpenVINO IR with int8 or fp16 weights, or a GGUF file.

        Takes a few minutes and 6 GB of memory for qwen3-0.6b.  Raises NotMade.
        """
        repository = self.folder / f"models-{weights}"
        if weights == GGUF:
            self._convert(repository / self.name / "model")
        else:
            self._export(self.huggingface(), repository / self.name / "model", weights)
        return repository

    def draft(self) -> Path:
        """A smaller model with mostly the same output, as OpenVINO IR with int8 weights.  Raises NotMade."""
        if not self.is_bigram:
            raise NotMade(f"{self.name} has no draft model")
        made, source = self.folder / "draft", self.folder / "draft.huggingface"
        if not made.exists():
            shape = DRAFTS[self.name]
            write_bigram_model(shape, similar_successors(shape["vocab_size"], AGREEMENT), source)
            self._export(source, made, "int8")
        return made

    def _export(self, source: Path, made: Path, weights: str) -> None:
        if not (made / "openvino_model.xml").exists():
            from tools.export.decoders.decoder import export_decoder

            export_decoder(str(source), made, weights, self.stage, "openvino")

    def _convert(self, target: Path) -> None:
        """The GGUF file that the peers read, in Braid's format; their environment writes the file."""
        if target.exists():
            return
        from pipelines.gguf.convert import convert

        source, unfinished = self.folder / "gguf" / "model.gguf", target.with_suffix(".unfinished")
        if not source.exists():
            raise NotMade(f"{source} is not there: no other server of GGUF files could be prepared")
        self.stage("converting the GGUF file")
        shutil.rmtree(unfinished, ignore_errors=True)
        convert(source, unfinished)
        unfinished.rename(target)

    def of(self, peer: Peer, python: Path) -> Path:
        """The format of `peer`, converted in its own environment.  Raises NotMade."""
        target = self.folder / peer.form.format(name=self.name)
        if (target / peer.made).exists():
            return target
        if self.name == SMOLLM2 and peer.form == GGUF:
            return _link(SMOLLM2_FILE, target / peer.made)
        source = self.huggingface()
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


def _link(file: Path, made: Path) -> Path:
    """The folder of `made`, a link to `file`."""
    if not file.exists():
        raise NotMade(f"{file} is not there: `make demo-chat` fetches it")
    made.parent.mkdir(parents=True, exist_ok=True)
    made.symlink_to(file)
    return made.parent


def _fingerprint(name: str) -> str:
    if name == SMOLLM2:
        said = SMOLLM2_FILE.name.encode()
    elif name in SHAPES:
        said = json.dumps([RECIPE, SHAPES[name], DRAFTS[name], AGREEMENT]).encode()
    else:
        said = b"".join(path.read_bytes() for path in sorted(DEMO.glob("model.onnx*")))
    return hashlib.sha256(said).hexdigest()[:8]


def weight_bytes(folder: Path) -> int:
    """The weights of a form are its largest file."""
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
