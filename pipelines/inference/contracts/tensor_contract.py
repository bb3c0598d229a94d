"""The interface of a model from named tensors to named tensors, and one checked call of it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from pipelines.base.element_types import DTYPES, name_of
from pipelines.base.errors import RequestError
from pipelines.inference.contracts.device_errors import ModelError

TensorShape = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorPort:
    """One input or output.

    `dtype` is a name of `pipelines.base.element_types`; `shape` has None for a free length, and is None
    itself for any rank.
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
        """Why `array` does not fit this port; None when it fits."""
        if name_of(array.dtype) != self.dtype:
            return f"its type is {name_of(array.dtype)}"
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
    """A loaded model.  Several threads may call `run`; the GIL is released during the computation."""

    @property
    def inputs(self) -> Mapping[str, TensorPort]: ...
    @property
    def outputs(self) -> Mapping[str, TensorPort]: ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Compute all outputs, each in a new array.  `inputs` have passed `check_inputs`.

        Raises RequestError for shapes that do not fit each other, which only the model can detect.
        """

    def describe(self) -> Mapping[str, str]:
        """Properties for logs: engine and device."""

    def close(self) -> None:
        """Free the model.  A second call has no effect."""


def run_tensors(
    session: TensorSession, inputs: Mapping[str, NDArray[Any]], wanted: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """One checked call that returns the outputs `wanted`; None for all.  Raises RequestError naming the
    tensor.
    """
    check_inputs(session.inputs, inputs)
    unknown = [name for name in wanted or () if name not in session.outputs]
    if unknown:
        raise _unknown("output", unknown[0], session.outputs)
    outputs = session.run(inputs)
    return {name: outputs[name] for name in (session.outputs if wanted is None else wanted)}


def check_inputs(ports: Mapping[str, TensorPort], inputs: Mapping[str, NDArray[Any]]) -> None:
    """Raise RequestError unless every input is present, with its type and shape, and no other."""
    for name in inputs:
        if name not in ports:
            raise _unknown("input", name, ports)
    for name, port in ports.items():
        if name not in inputs:
            raise RequestError(f"The input {name} is missing; it is {port}.", field=name)
        fault = port.fault(inputs[name])
        if fault is not None:
            raise RequestError(f"The input {name} must be {port}, but {fault}.", field=name)


def known_type(path: Path, kind: str, name: str, dtype: str | None, model_type: str) -> str:
    """Return `dtype`; ModelError when it is None: tensors here have no type for `model_type`."""
    if dtype is None:
        raise ModelError(
            f"{path}: its {kind} {name} is of type {model_type}; tensors have: {', '.join(DTYPES)}."
        )
    return dtype


def _unknown(kind: str, name: str, known: Iterable[str]) -> RequestError:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    offer = f"did you mean {near[0]}?" if near else f"it has: {', '.join(names)}."
    return RequestError(f"This model has no {kind} {name}; {offer}", field=name)
