"""What an adapter changes at the ends of a model, its embeddings and its head: a low-rank sum, or the whole
matrix (`modules_to_save`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.adapter_config import AdapterConfig
from pipelines.adapters.linear_names import EMBEDDINGS, ENDS, HEAD, end_name
from pipelines.adapters.weights import AdapterError, LinearShape, LoraFactors

LOW_RANK = {EMBEDDINGS: ("lora_embedding_A", "lora_embedding_B"), HEAD: ("lora_A.weight", "lora_B.weight")}
WHOLE, COPY = "weight", "base_layer.weight"
"""A matrix in the place of the model's, and the model's own, which PEFT saves beside a low-rank sum."""
_TENSOR = re.compile(
    r"(?:base_model\.model\.)?(.+?)\.((?:lora_[AB]\.|base_layer\.)?weight|lora_embedding_[AB])"
)

Tensors = Mapping[str, NDArray[np.float32]]


def end_of(tensor: str) -> str | None:
    """The end of a model that a tensor changes, of `ENDS`; None for any other tensor."""
    found = _TENSOR.fullmatch(tensor)
    return None if found is None else end_name(found[1])


def check_prepared(names: Iterable[str], linears: Mapping[str, LinearShape]) -> None:
    """Raise `AdapterError` for a tensor of an end that has no room for adapters in this model."""
    for name in sorted(names):
        if (end := end_of(name)) is not None and end not in linears:
            raise AdapterError(
                f"tensor {name}: {end} is not prepared for adapters in this model; if the model has it, "
                f"add {end} to `targets` and reload; on CUDA and in encoders it stays the model's"
            )


def read_ends(
    tensors: Tensors,
    config: AdapterConfig,
    linears: Mapping[str, LinearShape],
    read_sum: Callable[[str, str, str], LoraFactors],
) -> dict[str, LoraFactors]:
    """The ends that an adapter changes, which the model has; `read_sum` reads a low-rank sum from the name of
    its module and of its two tensors.  Raises `AdapterError`.
    """
    replaced = {end_name(module) for module in config.modules_to_save or ()}
    read = {}
    for end in ENDS:
        names = sorted(name for name in tensors if end_of(name) == end)
        if names:
            read[end] = _read_end(end, names, tensors, linears[end], end in replaced, read_sum)
        elif end in replaced or (end in linears and config.names(end)):
            field = "modules_to_save" if end in replaced else "target_modules"
            raise AdapterError(f"{end} has no tensors, but {field} names it")
    return read


def _read_end(
    end: str,
    names: list[str],
    tensors: Tensors,
    shape: LinearShape,
    is_replaced: bool,
    read_sum: Callable[[str, str, str], LoraFactors],
) -> LoraFactors:
    kinds = {_kind(name): name for name in names}
    module = names[0][: -len(_kind(names[0]))]
    wanted: tuple[str, ...] = (WHOLE,) if is_replaced else LOW_RANK[end]
    allowed = {f"{module}{kind}" for kind in (*wanted, *(() if is_replaced else (COPY,)))}
    if other := next((name for name in names if name not in allowed), None):
        saved = "in modules_to_save" if is_replaced else "a low-rank sum, and not in modules_to_save"
        raise AdapterError(f"tensor {other} does not belong to the adapter: {end} is {saved}")
    if missing := next((kind for kind in wanted if kind not in kinds), None):
        raise AdapterError(f"tensor {module}{missing} is missing beside {names[0]}")
    for kind in kinds.keys() & {WHOLE, COPY}:
        _check_whole(end, kinds[kind], tensors, shape)
    if not is_replaced:
        return read_sum(module, kinds[wanted[0]], kinds[wanted[1]])
    matrix = tensors[kinds[WHOLE]]  # float32[vocabulary, width]
    identity = np.eye(matrix.shape[1], dtype=np.float32)
    return (
        LoraFactors(identity, matrix, replaces=True)
        if end == HEAD
        else LoraFactors(matrix.T, identity, replaces=True)
    )


def _kind(tensor: str) -> str:
    found = _TENSOR.fullmatch(tensor)
    assert found is not None
    return found[2]


def _check_whole(end: str, name: str, tensors: Tensors, shape: LinearShape) -> None:
    """The matrix of both ends has a row for each token of the vocabulary."""
    own = tensors[name].shape
    model = (shape.size_out, shape.size_in) if end == HEAD else (shape.size_in, shape.size_out)
    if own != model:
        raise AdapterError(
            f"tensor {name} is {' × '.join(map(str, own))}, the model's {end} {model[0]} × {model[1]}: the "
            "vocabulary must be the model's; merge the adapter into the model instead"
        )
