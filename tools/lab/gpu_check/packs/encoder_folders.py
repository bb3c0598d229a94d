"""Folders of a pack's encoders with random weights, as an export writes them.

Weights are drawn by their names: a float16 graph gets those of the same graph in float32, rounded.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.packs.packed import NotPacked
from tools.lab.gpu_check.packs.packed_encoders import MODEL, PackedEncoder, read_encoder
from tools.lab.gpu_check.packs.weights import FILE, NUMPY, Place

SPREAD = 0.05
"""Standard deviation of weights that keeps the values of a small model distinct."""


def packed_encoder(name: str, setting: Setting) -> PackedEncoder:
    """The encoder from the pack; exported here when there is no pack and exporting is installed."""
    try:
        return read_encoder(setting.pack, name)
    except NotPacked:
        try:
            from tools.lab.gpu_check.packs.encoder_models import ENCODERS
            from tools.lab.gpu_check.packs.pack_encoders import pack_encoder
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
