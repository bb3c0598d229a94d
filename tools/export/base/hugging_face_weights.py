"""The weights of a Hugging Face folder as arrays, read from its safetensors files without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  so that numpy knows bfloat16
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tools.export.base.folder import ExportError

ONE, INDEX, TORCH = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"


def read_safetensors(folder: Path) -> dict[str, NDArray[Any]]:
    """All weights by name.  Raises `ExportError`."""
    try:
        return {name: value for file in _files(folder) for name, value in _read(file).items()}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{folder}: its weights cannot be read: {error!r}") from error


def _files(folder: Path) -> list[Path]:
    if (folder / ONE).is_file():
        return [folder / ONE]
    if (folder / INDEX).is_file():
        names = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / Path(name).name for name in sorted(set(names))]
    has = f"only {TORCH}" if (folder / TORCH).is_file() else "no weights"
    raise ExportError(
        f"{folder} has {has}; {ONE} is read: load the model with transformers and call "
        "save_pretrained(FOLDER, safe_serialization=True)"
    )


def _read(file: Path) -> dict[str, NDArray[Any]]:
    with safe_open(file, framework="numpy") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  it is no dict
