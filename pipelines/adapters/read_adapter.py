"""Reads an adapter's folder as PEFT writes it: adapter_config.json and adapter_model.safetensors.

A pickled adapter_model.bin is never read: it may run code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from pipelines.adapters.adapter_config import CONFIG, AdapterConfig, read_adapter_config
from pipelines.adapters.fused_linears import fuse
from pipelines.adapters.linear_names import ENDS, last_name, linear_name, parts_of
from pipelines.adapters.model_ends import check_prepared, end_of, read_ends
from pipelines.adapters.weights import AdapterError, AdapterWeights, LinearShape, LoraFactors
from pipelines.base.float_tensors import read_float_tensors, tensor_names

WEIGHTS = "adapter_model.safetensors"
A, B = "lora_A.weight", "lora_B.weight"
MODULE = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight")
EXPERT = ".experts."
"""What the names of routed experts have in them."""
HEADER_BYTES = 1 << 24
"""Room for names in a file of weights."""

Tensors = dict[str, NDArray[np.float32]]


def adapter_folders(folder: Path) -> list[Path]:
    """The adapters below a folder, in order of their names."""
    return sorted(file.parent for file in folder.glob(f"*/{CONFIG}") if file.is_file())


def adapter_targets(folders: Iterable[Path]) -> frozenset[str]:
    """What the adapters of these folders change, as q_proj; one that cannot be read changes nothing."""
    targets: set[str] = set()
    for folder in folders:
        if not (folder / WEIGHTS).is_file():
            continue
        try:
            names = tensor_names(folder / WEIGHTS)
        except (OSError, SafetensorError):
            continue
        modules = [match[1] for name in names if (match := MODULE.fullmatch(name))]
        targets |= {last_name(linear) for module in modules if (linear := linear_name(module))}
        targets |= {end for name in names if (end := end_of(name))}
    return frozenset(targets)


def read_adapter(folder: Path, linears: Mapping[str, LinearShape], max_rank: int) -> AdapterWeights:
    """The adapter of a folder, for a model with these linear layers.  Raises `AdapterError`."""
    config = read_adapter_config(folder)
    tensors = _read_tensors(folder / WEIGHTS, linears, max_rank)

    def read_sum(module: str, a: str, b: str) -> LoraFactors:
        return _lora(module, tensors[a], tensors[b], config, max_rank)

    ends = read_ends(tensors, config, linears, read_sum)
    modules = _modules(name for name in tensors if end_of(name) is None)
    _check_complete(config, modules, linears)
    read = {linear: read_sum(module, f"{module}{A}", f"{module}{B}") for linear, module in modules.items()}
    fitting = fuse(read, linears)
    for linear, lora in (fitting | ends).items():
        _check_fits(linear, lora, linears)
    return AdapterWeights(max((len(factors.a) for factors in fitting.values()), default=0), fitting | ends)


def _read_tensors(file: Path, linears: Mapping[str, LinearShape], max_rank: int) -> Tensors:
    """The tensors of a file, which is no larger than an adapter of this model can be."""
    if not file.is_file():
        raise AdapterError(f"{WEIGHTS} is missing; PEFT's save_pretrained writes it, a .bin is not read")
    numbers = sum(_most_numbers(linear, shape, max_rank) for linear, shape in linears.items())
    most = 8 * numbers + HEADER_BYTES
    try:
        names = tensor_names(file)
        if not names:
            raise AdapterError(f"{WEIGHTS} has no tensors")
        check_prepared(names, linears)
        _refuse_experts(names, linears)
        if (size := file.stat().st_size) > most:
            raise AdapterError(f"{WEIGHTS} has {size} bytes, and an adapter of this model at most {most}")
        return read_float_tensors(file)
    except KeyError as error:
        raise AdapterError(f"{WEIGHTS} has numbers of type {error}; floats are read") from error
    except (OSError, SafetensorError) as error:
        raise AdapterError(f"{WEIGHTS} cannot be read: {error}") from error


def _refuse_experts(names: Iterable[str], linears: Mapping[str, LinearShape]) -> None:
    """Raise `AdapterError` for a tensor of a routed expert, which no engine of Braid adapts."""
    if not any(EXPERT in linear for linear in linears):
        for name in sorted(name for name in names if EXPERT in name):
            raise AdapterError(
                f"tensor {name} belongs to a routed expert, and only attention and shared experts of a "
                "mixture are adapted; train the adapter without experts in target_modules"
            )


def _most_numbers(linear: str, shape: LinearShape, max_rank: int) -> int:
    """The most numbers that a linear layer's tensors may have; one of an end may be a whole matrix."""
    whole = shape.size_in * shape.size_out if linear in ENDS else 0
    return max_rank * (shape.size_in + shape.size_out) + whole


def _modules(names: Iterable[str]) -> dict[str, str]:
    """Linear layer → the beginning of its tensors' names.  Raises `AdapterError` for a tensor of anything
    else.
    """
    modules: dict[str, str] = {}
    tensors = sorted(names)  # files have no order: the fault that is named is always the same
    for name in tensors:
        match = MODULE.fullmatch(name)
        linear = None if match is None else linear_name(match[1])
        if match is None or linear is None:
            raise AdapterError(
                f"tensor {name} belongs to no linear layer of a text layer and to no end of the model, and "
                "only those are adapted"
            )
        begin, side = name.rsplit("lora_", 1)[0], match[2]
        other = f"{begin}lora_{'B' if side == 'A' else 'A'}.weight"
        if other not in tensors:
            raise AdapterError(f"tensor {other} is missing beside {name}")
        if modules.setdefault(linear, begin) != begin:
            raise AdapterError(f"tensor {name} is the second one of {linear}")
    return modules


def _check_complete(
    config: AdapterConfig, modules: Mapping[str, str], linears: Mapping[str, LinearShape]
) -> None:
    """Raise `AdapterError` unless all linear layers of the adapter are in the model and in the file."""
    known = {name for linear in linears for name in (linear, *parts_of(linear))}
    for linear, begin in modules.items():
        if linear not in known:
            raise AdapterError(
                f"tensor {begin}lora_A.weight: {linear} is not prepared for adapters in this model; "
                f"if the model has it, add {last_name(linear)} to `targets` and reload"
            )
    linear, begin = next(iter(modules.items()), ("", "model.."))
    before = begin.removeprefix("base_model.model.")[: -len(linear) - 1]
    for linear in (name for name in linears if name not in ENDS):
        names = {linear, *parts_of(linear)}
        if names.isdisjoint(modules) and config.names(before + linear):
            raise AdapterError(f"{linear} has no tensors, but target_modules names it")


def _lora(
    module: str, a: NDArray[np.float32], b: NDArray[np.float32], config: AdapterConfig, max_rank: int
) -> LoraFactors:
    name = module.removeprefix("base_model.model.").removesuffix(".")
    rank = config.rank(name)
    if a.ndim != 2 or b.ndim != 2 or not len(a) == b.shape[1] == rank:
        raise AdapterError(
            f"tensor {module}{A} is {_shape(a)}, its lora_B {_shape(b)}; {CONFIG} says rank {rank}"
        )
    if rank > max_rank:
        raise AdapterError(
            f"{name} has rank {rank}, greater than max_rank {max_rank} of the model's `adapters`"
        )
    return LoraFactors(a, np.asarray(b * np.float32(config.scale(name)), np.float32))


def _check_fits(linear: str, lora: LoraFactors, linears: Mapping[str, LinearShape]) -> None:
    shape, own = linears[linear], (lora.a.shape[1], len(lora.b))
    if own != (shape.size_in, shape.size_out):
        raise AdapterError(
            f"{linear} is adapted from {own[0]} numbers to {own[1]}; the model's is from {shape.size_in} to "
            f"{shape.size_out}: the adapter is of another model"
        )


def _shape(array: NDArray[np.float32]) -> str:
    return " × ".join(map(str, array.shape))
