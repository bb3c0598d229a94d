"""Encoders of a pack: graphs without their weights, and folders of them with random ones.

Needs numpy alone. Weights are drawn by their names: a float16 graph gets those of the same graph in float32,
rounded.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.gpu_check.checks import Setting
from tools.gpu_check.packs.packed import PRESET, NotPacked, present
from tools.gpu_check.packs.weights import FILE, NUMPY, Place

MODEL = "model.onnx"
SPREAD = 0.05
"""Standard deviation of weights that keeps the values of a small model distinct."""


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


def packed_encoder(name: str, setting: Setting) -> PackedEncoder:
    """The encoder from the pack; exported here when there is no pack and exporting is installed."""
    try:
        return read_encoder(setting.pack, name)
    except NotPacked:
        try:
            from tools.gpu_check.packs.encoder_models import ENCODERS
            from tools.gpu_check.packs.pack_encoders import pack_encoder
        except ImportError:
            pass
        else:
            return pack_encoder(ENCODERS[name])
        raise


@contextlib.contextmanager
def encoder_file(name: str, setting: Setting) -> Iterator[Path]:
    """The encoder's model.onnx in a temporary folder as an export writes it."""
    packed = packed_encoder(name, setting)
    folder = setting.work / f"encoder.{name}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / MODEL).write_bytes(packed.model)
        (folder / "config.json").write_text(json.dumps(packed.config))
        _write_weights(packed.places, folder / FILE)
        yield folder / MODEL
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_weights(places: list[Place], path: Path) -> None:
    with path.open("wb") as file:
        for place in places:
            file.seek(place.offset)
            file.write(_random(place).tobytes())


def _random(place: Place) -> NDArray[Any]:
    random = np.random.default_rng(zlib.crc32(place.name.encode()))
    return (SPREAD * random.standard_normal(place.shape, np.float32)).astype(NUMPY[place.dtype])
