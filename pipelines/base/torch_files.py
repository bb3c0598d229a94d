"""Reads tensors of a file that `torch.save` wrote, without torch and without running what a pickle names.

Such a file is a zip archive: data.pkl describes the tensors, and each storage is a member of its own
(torch/serialization.py).  Pickles may name any function; here four names are known, and others are refused.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

MAX_PICKLE_BYTES, MAX_STORAGE_BYTES = 1 << 20, 1 << 30
"""The most of the description, and of one storage; more is refused before it is read."""
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
}
"""torch's name of a storage → numpy's type of its elements; of bfloat16 the bits."""


class Storage(NamedTuple):
    """The elements of tensors, in the order of memory."""

    name: str
    elements: NDArray[Any]


def read_torch_file(path: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a state dict, as float32.

    Raises OSError, and ValueError for a file that is none, holds more than tensors of floats, or is older
    than torch 1.6.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.partition("/")[2]: name for name in archive.namelist()}
            tensors = TensorUnpickler(archive, members).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} holds no tensors as torch writes them: {error}") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, np.ndarray) for value in tensors.values()):
        raise ValueError(f"{path} holds more than named tensors")
    return {str(name): value for name, value in tensors.items()}


class TensorUnpickler(pickle.Unpickler):
    """Unpickles tensors: it calls no function but those of this file."""

    def __init__(self, archive: zipfile.ZipFile, members: dict[str, str]) -> None:
        self._archive, self._members = archive, members
        if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
            raise pickle.UnpicklingError("its numbers are big-endian")
        _check_size(archive, members["data.pkl"], MAX_PICKLE_BYTES)
        super().__init__(archive.open(members["data.pkl"]))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in STORAGES:
            return name
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is not run")

    def persistent_load(self, described: Any) -> Storage:
        _, name, key, _, num_elements = described
        member = self._members[f"data/{key}"]
        _check_size(self._archive, member, MAX_STORAGE_BYTES)
        elements = np.frombuffer(self._archive.read(member), STORAGES[name])
        if len(elements) < num_elements:
            raise pickle.UnpicklingError(f"its storage {key} is cut short")
        return Storage(name, elements)


def _check_size(archive: zipfile.ZipFile, member: str, most: int) -> None:
    if (size := archive.getinfo(member).file_size) > most:
        _refuse(f"{member} has {size} bytes")


def _refuse(reason: str) -> NoReturn:
    raise pickle.UnpicklingError(reason)


def _tensor(
    storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *others: Any
) -> NDArray[np.float32]:
    """A tensor of a storage, its numbers one behind another."""
    contiguous = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    end = offset + math.prod(shape)
    if min(offset, *shape, 0) < 0 or end > len(storage.elements):
        _refuse("a tensor reaches out of its storage")
    if any(size > 1 and own != want for size, own, want in zip(shape, strides, contiguous, strict=True)):
        _refuse("a tensor is not contiguous")
    elements = storage.elements[offset:end]
    if storage.name == "BFloat16Storage":
        elements = (elements.astype(np.uint32) << 16).view(np.float32)
    return elements.astype(np.float32).reshape(shape)
