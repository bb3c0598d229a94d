"""Writes a graph's external weights from a torch model in memory.

A graph can be exported and lowered without a GPU and without space for its weights; `Place` names the
part of the weights' file is which parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "weights.bin"
ALIGNMENT = 4096  # bytes; a page, so that files can be mapped
NUMPY = {"FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
"""ONNX's name of a type → torch's."""


@dataclass(frozen=True)
class Place:
    """One initializer: `length` bytes at `offset` of the file are `parameter`, transposed or as it is."""

    name: str
    parameter: str
    transposed: bool
    dtype: str  # ONNX's name
    shape: list[int]
    offset: int
    length: int


def write_weights(model: Any, places: list[Place], folder: Path) -> Path:
    """Write the file of external weights for a graph with these places.

    model: a torch module whose parameters have the places' names; each is converted to the place's type
    on its device, then copied.  Raises KeyError or ValueError for a model of another shape.
    """
    import torch

    parameters = dict(model.named_parameters(remove_duplicate=False))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("wb") as file, torch.no_grad():
        for place in places:
            tensor = parameters[place.parameter].detach().to(getattr(torch, NUMPY[place.dtype]))
            tensor = (tensor.T if place.transposed else tensor).contiguous()
            if list(tensor.shape) != place.shape:
                raise ValueError(f"{place.parameter} is {list(tensor.shape)}, not {place.shape}")
            file.seek(place.offset)
            file.write(memoryview(tensor.view(torch.uint8).cpu().numpy().reshape(-1)))
    return folder / FILE


def file_bytes(places: list[Place]) -> int:
    return max(place.offset + place.length for place in places)


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
