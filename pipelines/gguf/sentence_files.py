"""The files of sentence-transformers that say how the vectors of an encoder become that of a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from safetensors.numpy import save_file

from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.weights import read_any

DENSE = ("dense_2", "dense_3")
"""Linear layers behind pooling, as files name them, one after the other."""
IDENTITY = "torch.nn.modules.linear.Identity"


def read_dense(metadata: Metadata, linears: LinearLayers, width: int) -> list[Floats]:
    """float32[size after, size before] of each linear layer behind pooling; the first one takes vectors of
    `width`.  Raises `GgufError`.
    """
    layers: list[Floats] = []
    for name in DENSE:
        if linears.has(f"{name}.weight"):
            tensor = linears.tensor(f"{name}.weight", rows=None, width=width)
            for part in ("in", "out"):
                metadata.count(f"{name}_feat_{part}", 0, 0)  # as the tensor says
            layers.append(read_any(tensor))
            width = tensor.rows
    return layers


def write_modules(width: int, mode: str, folder: Path, dense: Sequence[Floats] = ()) -> None:
    """Write modules.json and the folders that it names: pooling by `mode`, linear layers, unit length."""
    paths = [("", "Transformer"), ("1_Pooling", "Pooling")]
    paths += [(f"{number}_Dense", "Dense") for number in range(2, 2 + len(dense))]
    paths.append((f"{len(paths)}_Normalize", "Normalize"))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(paths)
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    _write_settings(folder / "1_Pooling", {"word_embedding_dimension": width, "pooling_mode": mode})
    for number, weight in enumerate(dense, 2):
        place, (after, before) = folder / f"{number}_Dense", weight.shape
        sizes = {"in_features": before, "out_features": after}
        _write_settings(place, {**sizes, "bias": False, "activation_function": IDENTITY})
        save_file({"linear.weight": weight}, place / "model.safetensors")


def _write_settings(place: Path, settings: dict[str, object]) -> None:
    place.mkdir()
    (place / "config.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")
