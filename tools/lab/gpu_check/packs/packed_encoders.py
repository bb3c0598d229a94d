"""Encoders of a pack: graphs without their weights, written and read.  Needs the standard library alone."""

from __future__ import annotations

import json
import lzma
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.lab.gpu_check.packs.packed import PRESET, present
from tools.lab.gpu_check.packs.weights import Place

MODEL = "model.onnx"


@dataclass(frozen=True)
class PackedEncoder:
    """An encoder (`model`: a serialized ONNX model), its weights' places, and its config.json."""

    model: bytes
    places: list[Place]
    config: dict[str, Any]


def write_encoder(folder: Path, name: str, packed: PackedEncoder) -> list[Path]:
    graph, facts = folder / f"encoder.{name}.onnx.xz", folder / f"encoder.{name}.json.xz"
    known = {"places": [asdict(place) for place in packed.places], "config": packed.config}
    graph.write_bytes(lzma.compress(packed.model, preset=PRESET))
    facts.write_bytes(lzma.compress(json.dumps(known).encode(), preset=PRESET))
    return [graph, facts]


def read_encoder(folder: Path, name: str) -> PackedEncoder:
    model = lzma.decompress(present(folder / f"encoder.{name}.onnx.xz").read_bytes())
    known = json.loads(lzma.decompress(present(folder / f"encoder.{name}.json.xz").read_bytes()))
    return PackedEncoder(model, [Place(**place) for place in known["places"]], known["config"])
