"""Writes a graph's external weights from a torch model in memory.

A graph can be exported and lowered without a GPU and without space for its weights; `Place` names the
part of the weights' file is which parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "weights.bin"
ALIGNMENT = 4096  # bytes; a page, so that files can be mapped
NUMPY = {"FLOAT": "float32", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
"""ONNX's name of a type → torch's."""
STACKED = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
"""A tensor of all experts in transformers 5 → each expert's weights in it, one below the other."""


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

    parameters = dict(parameters_of(model))
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


def parameters_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Name → parameter in the words of transformers 4, also where a mixture has a tensor of all experts."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        experts, _, stack = name.rpartition(".")
        if not (experts.endswith(".experts") and stack in STACKED):
            yield name, parameter
            continue
        for number, own in enumerate(parameter):
            for part, weight in zip(STACKED[stack], own.chunk(len(STACKED[stack])), strict=True):
                yield f"{experts}.{number}.{part}.weight", weight


def file_bytes(places: list[Place]) -> int:
    return max(place.offset + place.length for place in places)


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
