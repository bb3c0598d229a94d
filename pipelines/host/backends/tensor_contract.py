"""A model from named tensors to named tensors: what it takes and gives, and one call of it.

Knows names, types and shapes; knows nothing of tokens, requests, batching or wires.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import RequestError
from pipelines.host.backends.device_errors import ModelError

TensorShape = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorPort:
    """One input or output: `dtype` is numpy's name, `shape` has None where a length is free.

    `shape` None is any rank.
    """

    name: str
    dtype: str
    shape: TensorShape | None

    def __str__(self) -> str:
        sizes = (
            "…" if self.shape is None else ", ".join("?" if one is None else str(one) for one in self.shape)
        )
        return f"{self.dtype}[{sizes}]"

    def fault(self, array: NDArray[Any]) -> str | None:
        """Why `array` is none of this port's, or None."""
        if array.dtype.name != self.dtype:
            return f"its type is {array.dtype.name}"
        if self.shape is None:
            return None
        if array.ndim != len(self.shape):
            return f"it has {array.ndim} axes"
        wrong = [
            axis
            for axis, (size, wanted) in enumerate(zip(array.shape, self.shape, strict=True))
            if wanted is not None and size != wanted
        ]
        return f"its shape is {list(array.shape)}" if wrong else None


class TensorSession(Protocol):
    """A loaded model.  One thread calls `run`; the GIL is released while it computes."""

    @property
    def inputs(self) -> Mapping[str, TensorPort]: ...
    @property
    def outputs(self) -> Mapping[str, TensorPort]: ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """All outputs, each an array of the caller's own.  `inputs` passed `check_inputs`.

        Raises RequestError for what only the model could see: shapes that do not go together.
        """

    def describe(self) -> Mapping[str, str]:
        """Facts for logs: engine and device."""

    def close(self) -> None:
        """Free the model.  A second call does nothing."""


def run_tensors(
    session: TensorSession, inputs: Mapping[str, NDArray[Any]], wanted: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """One checked call: the outputs `wanted`, None for all.  Raises RequestError naming the tensor."""
    check_inputs(session.inputs, inputs)
    strangers = [name for name in wanted or () if name not in session.outputs]
    if strangers:
        raise _unknown("output", strangers[0], session.outputs)
    given = session.run(inputs)
    return {name: given[name] for name in (session.outputs if wanted is None else wanted)}


def check_inputs(ports: Mapping[str, TensorPort], inputs: Mapping[str, NDArray[Any]]) -> None:
    """Every input is there, none beside them, each of its type and shape.  Raises RequestError."""
    for name in inputs:
        if name not in ports:
            raise _unknown("input", name, ports)
    for name, port in ports.items():
        if name not in inputs:
            raise RequestError(f"The input {name} is missing; it is {port}.", field=name)
        fault = port.fault(inputs[name])
        if fault is not None:
            raise RequestError(f"The input {name} must be {port}, but {fault}.", field=name)


def numpy_name(path: Path, kind: str, name: str, dtype: str | None, told: str) -> str:
    """`dtype`, or ModelError where the model's type `told` is none of numpy's."""
    if dtype is None:
        raise ModelError(f"{path}: its {kind} {name} is of type {told}, which cannot be sent.")
    return np.dtype(dtype).name


def _unknown(kind: str, name: str, known: Iterable[str]) -> RequestError:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    offer = f"did you mean {near[0]}?" if near else f"it has: {', '.join(names)}."
    return RequestError(f"This model has no {kind} {name}; {offer}", field=name)
