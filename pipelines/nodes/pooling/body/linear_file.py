"""Reads one linear layer from a file of its own: safetensors, or what `torch.save` wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipelines.base.float_tensors import read_float_tensors
from pipelines.base.torch_files import read_torch_file
from pipelines.inference.contracts.device_errors import ModelError

Linear = tuple[NDArray[np.float32], NDArray[np.float32] | None]
PREFIXES = ("", "linear.")


def read_linear(path: Path) -> Linear:
    """(weight [out, in], bias [out] or None).  Raises `ModelError`."""
    read = read_float_tensors if path.suffix == ".safetensors" else read_torch_file
    try:
        tensors = read(path)
        prefix = next(prefix for prefix in PREFIXES if f"{prefix}weight" in tensors)
    except (OSError, ValueError, SafetensorError, KeyError, StopIteration) as error:
        raise ModelError(f"{path} holds no linear layer of floats: {error}") from error
    weight, bias = tensors[f"{prefix}weight"], tensors.get(f"{prefix}bias")
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise ModelError(f"{path} holds no linear layer: its weight is {list(weight.shape)}.")
    return weight, bias
