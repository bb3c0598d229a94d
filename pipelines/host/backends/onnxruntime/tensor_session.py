"""Runs a tensor model on ONNX Runtime's CPU kernels (`TensorSession`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from pipelines.errors import RequestError
from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.onnxruntime.runtime import CPU, RUNTIME_ERRORS, error_text, open_session, version
from pipelines.host.backends.tensor_contract import TensorPort, numpy_name

NAMES = {
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "bool")},
    **{f"tensor({name})": name for name in ("uint8", "uint16", "uint32", "uint64", "float16")},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}
"""ONNX Runtime's type → numpy's name."""


class OnnxTensors:
    """One session.  Raises `ModelError`."""

    def __init__(self, path: Path, threads: int | None) -> None:
        try:
            self._session: ort.InferenceSession | None = open_session(
                path.read_bytes(), path.parent, [CPU], threads, {}
            )
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error
        ports = {"input": self._session.get_inputs(), "output": self._session.get_outputs()}
        self.inputs, self.outputs = (
            {one.name: _port(path, kind, one) for one in listed} for kind, listed in ports.items()
        )

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        assert self._session is not None, "run comes before close"
        feeds = {name: np.asarray(inputs[name], order="C") for name in self.inputs}
        try:
            given = self._session.run(list(self.outputs), feeds)
        except RUNTIME_ERRORS as error:
            raise RequestError(
                f"The shapes of these inputs do not go together: {error_text(error)}"
            ) from error
        return dict(zip(self.outputs, given, strict=True))

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"onnxruntime {version()}", "device": "cpu"}

    def close(self) -> None:
        self._session = None


def _port(path: Path, kind: str, argument: ort.NodeArg) -> TensorPort:
    """The port of an argument; ONNX Runtime gives a name, or None, for a free length."""
    sizes = tuple(size if isinstance(size, int) else None for size in argument.shape)
    dtype = numpy_name(path, kind, argument.name, NAMES.get(argument.type), argument.type)
    return TensorPort(argument.name, dtype, sizes)
