"""The inputs of an OpenVINO request, which reads them in place: written anew for each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openvino as ov
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.model.arrays import to_tensor

MAX_COPIED_BYTES = 1 << 16
"""Larger arrays, embeddings of images, are read where they are."""


class RequestInputs:
    """What a request reads, by name; it lives as long as it is read.

    A tensor that is new to a request takes longer than all that a decode step copies, so small arrays are
    copied, into those of the step before where these have the same shape.
    """

    def __init__(self, request: ov.InferRequest, ports: Mapping[str, int]) -> None:
        """`ports`: the index of each input."""
        self._request = request
        self._ports = ports
        self._read: dict[str, NDArray[Any]] = {}
        self._own: dict[str, NDArray[Any]] = {}  # those of them that are copies

    def give(self, name: str, array: NDArray[Any]) -> None:
        """The request reads the array itself, until it gets another one."""
        self._own.pop(name, None)
        self._read[name] = array
        self._request.set_input_tensor(self._ports[name], to_tensor(name, array))

    def write(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Give the inputs of a step; those that the model does not read are left out."""
        for name, array in inputs.items():
            own = self._own.get(name)
            if own is not None and own.shape == array.shape:
                own[...] = array
            elif name in self._ports:
                is_small = array.nbytes <= MAX_COPIED_BYTES
                read = array.copy() if is_small else array
                self.give(name, read)
                if is_small:
                    self._own[name] = read
