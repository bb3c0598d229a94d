"""Small decoders of a pack, hybrids and gpt-oss: lowered graphs with their weights, and logits of prompts.

Bare numpy.
"""

from __future__ import annotations

import base64
import json
import lzma
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.onnx_format.decoder_format import AttentionLayer
from tools.lab.gpu_check.packs.packed import present

HYBRIDS = (
    "export.lfm2",
    "export.qwen3_next",
    "export.falcon_h1",
    "gguf.lfm2",
    "gguf.qwen35",
    "gguf.granitehybrid",
)
"""Short convolutions, gated delta nets and Mamba 2, in float16 and with weights of four bits."""
WITH_SINKS = ("export.gpt_oss", "gguf.gpt-oss")
"""gpt-oss in float16, and with experts of MXFP4."""
PRESET = 6


class Text(NamedTuple):
    """Token ids, and the logits after the last ones of them, float32[rows, vocab]."""

    ids: NDArray[np.int64]
    logits: NDArray[np.float32]


@dataclass(frozen=True)
class PackedHybrid:
    """A decoder, lowered, with the weights in its graph."""

    lowered: LoweredDecoder
    texts: list[Text]

    @property
    def has_states(self) -> bool:
        return bool(self.lowered.state_shapes)


def write_hybrid(folder: Path, name: str, packed: PackedHybrid) -> Path:
    lowered = packed.lowered
    content = {
        "model": _text_of(np.frombuffer(lowered.model, np.uint8)),
        "layers": [asdict(layer) for layer in lowered.layers],
        "facts": {field: getattr(lowered, field) for field in FACTS},
        "texts": [[text.ids.tolist(), _text_of(text.logits.astype(np.float16))] for text in packed.texts],
    }
    path = _path(folder, name)
    path.write_bytes(lzma.compress(json.dumps(content).encode(), preset=PRESET))
    return path


def read_hybrid(folder: Path, name: str) -> PackedHybrid:
    """Raises `NotPacked`."""
    content = json.loads(lzma.decompress(present(_path(folder, name)).read_bytes()))
    facts = content["facts"]
    facts["state_shapes"] = tuple(map(tuple, facts["state_shapes"]))
    facts["uncapturable"] = tuple(facts["uncapturable"])
    layers = tuple(AttentionLayer(**layer) for layer in content["layers"])
    model = _bytes_of(content["model"])
    vocab_size = facts["vocab_size"]
    texts = [
        Text(
            np.array(ids, np.int64),
            np.frombuffer(_bytes_of(logits), np.float16).reshape(-1, vocab_size).astype(np.float32),
        )
        for ids, logits in content["texts"]
    ]
    return PackedHybrid(LoweredDecoder(model=model, folder=folder, layers=layers, **facts), texts)


FACTS = (
    "vocab_size",
    "max_context",
    "element_type",
    "block_tokens",
    "kv_cache",
    "gathers",
    "uncapturable",
    "state_shapes",
)


def _path(folder: Path, name: str) -> Path:
    return folder / f"hybrid.{name}.json.xz"


def _text_of(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text)
