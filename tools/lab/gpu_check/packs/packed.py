"""Reads and writes the files of a pack, with the standard library only.

nodes.json.xz     single attention nodes: models in hexadecimal, and the scales of their caches
NAME.onnx.xz      a lowered decoder, its weights external data that does not exist yet
NAME.json.xz      the places of its weights, and its facts for a session
encoder.NAME.*    the same of encoders (`packed_encoders.py`)
"""

from __future__ import annotations

import json
import lzma
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.lab.gpu_check.packs.weights import Place

NODES = "nodes.json.xz"
PRESET = 9 | lzma.PRESET_EXTREME


@dataclass(frozen=True)
class PackedModel:
    """A lowered decoder (`model`: a serialized ONNX model) and its facts for a session."""

    model: bytes
    places: list[Place]
    layers: list[dict[str, Any]]  # AttentionLayer
    vocab_size: int
    max_context: int
    element_type: str
    cache: str
    block_tokens: int
    adapted: list[dict[str, Any]] = field(default_factory=list)  # LoraLinear


class NotPacked(FileNotFoundError):
    """The pack does not contain the model; the message says how to make a pack."""


def write_nodes(folder: Path, models: dict[str, bytes], scales: dict[str, tuple[float, float]]) -> Path:
    content = {name: {"model": model.hex(), "scales": scales[name]} for name, model in models.items()}
    path = folder / NODES
    path.write_bytes(lzma.compress(json.dumps(content).encode(), preset=PRESET))
    return path


def read_nodes(folder: Path) -> dict[str, tuple[bytes, tuple[float, float]]]:
    """A model's bytes and its cache's scales, by the node's name."""
    content = json.loads(lzma.decompress(present(folder / NODES).read_bytes()))
    return {
        name: (bytes.fromhex(node["model"]), (node["scales"][0], node["scales"][1]))
        for name, node in content.items()
    }


def write_model(folder: Path, name: str, packed: PackedModel) -> list[Path]:
    graph, facts = folder / f"{name}.onnx.xz", folder / f"{name}.json.xz"
    graph.write_bytes(lzma.compress(packed.model, preset=PRESET))
    known = {key: value for key, value in asdict(packed).items() if key != "model"}
    facts.write_bytes(lzma.compress(json.dumps(known).encode(), preset=PRESET))
    return [graph, facts]


def read_model(folder: Path, name: str) -> PackedModel:
    model = lzma.decompress(present(folder / f"{name}.onnx.xz").read_bytes())
    known = json.loads(lzma.decompress(present(folder / f"{name}.json.xz").read_bytes()))
    places = [Place(**place) for place in known.pop("places")]
    return PackedModel(model=model, places=places, **known)


def present(path: Path) -> Path:
    if not path.exists():
        raise NotPacked(
            f"there is no {path}; make it where the extra `export` is installed: "
            f"python -m tools.lab.gpu_check pack --out {path.parent}"
        )
    return path
