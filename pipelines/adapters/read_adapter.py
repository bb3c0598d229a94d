"""Reads an adapter's folder as PEFT writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.adapters.weights import AdapterWeights, ProductShape

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def adapter_folders(folder: Path) -> list[Path]:
    """The adapters below a folder, in order of their names."""
    return sorted(file.parent for file in folder.glob(f"*/{CONFIG}"))


def read_adapter(folder: Path, products: Mapping[str, ProductShape], max_rank: int) -> AdapterWeights:
    """The adapter of a folder, for a model with these products.  Raises `AdapterError`."""
    raise NotImplementedError
