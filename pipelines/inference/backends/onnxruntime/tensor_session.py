"""Runs a tensor model on ONNX Runtime, on CPU or an NVIDIA GPU (`TensorSession`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from pipelines.base.element_types import BFLOAT16, BYTES, DTYPES, name_of
from pipelines.base.errors import RequestError
from pipelines.inference.backends.onnxruntime.runtime import (
    CPU,
    CUDA,
    RUNTIME_ERRORS,
    error_text,
    open_session,
    require_provider,
    version,
)
from pipelines.inference.contracts.device_errors import ModelError, require_file
from pipelines.inference.contracts.tensor_contract import TensorPort, known_type
from pipelines.inference.contracts.tensor_settings import TensorSettings

Arrays = Mapping[str, NDArray[Any]]

NAMES = {
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "bool")},
    **{f"tensor({name})": name for name in ("uint8", "uint16", "uint32", "uint64", "float16", BFLOAT16)},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(string)": BYTES,
}
"""ONNX Runtime's type → the name of ours."""
ONNX_BFLOAT16 = 16
"""onnx.TensorProto.BFLOAT16."""


def open_tensors(path: Path, settings: TensorSettings) -> OnnxTensors:
    """The session of a model.onnx.  Raises `ModelError`."""
    if settings.changes:
        raise ModelError(
            f"{settings.changes}: openvino alone carries this out; onnxruntime runs a model as it is."
        )
    require_file(path)
    return OnnxTensors(path, settings)


class OnnxTensors:
    """One session.  Raises `ModelError`."""

    def __init__(self, path: Path, settings: TensorSettings) -> None:
        self._device = settings.device
        try:
            self._session: ort.InferenceSession | None = open_session(
                path.read_bytes(), path.parent, _providers(settings.device), settings.threads, {}
            )
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error
        ports = {"input": self._session.get_inputs(), "output": self._session.get_outputs()}
        self.inputs, self.outputs = (
            {value.name: _port(path, kind, value) for value in listed} for kind, listed in ports.items()
        )
        types = {port.dtype for port in (*self.inputs.values(), *self.outputs.values())}
        if types >= {BFLOAT16, BYTES}:
            raise ModelError(
                f"{path}: ONNX Runtime's binding passes either strings or bfloat16; try `engine: openvino`."
            )
        self._call = _call_with_values if BFLOAT16 in types else _call_with_arrays

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        assert self._session is not None, "run comes before close"
        feeds = {name: np.asarray(inputs[name], order="C") for name in self.inputs}
        try:
            given = self._call(self._session, list(self.outputs), feeds)
        except RUNTIME_ERRORS as error:
            raise RequestError(
                f"The shapes of these inputs do not go together: {error_text(error)}"
            ) from error
        return dict(zip(self.outputs, given, strict=True))

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"onnxruntime {version()}", "device": self._device}

    def close(self) -> None:
        self._session = None


def _providers(device: str) -> list[str | tuple[str, Mapping[str, Any]]]:
    """Raises `ModelError` where this build has no provider for the device."""
    if device == "cpu":
        return [CPU]
    require_provider(device)
    _, _, number = device.partition(":")
    return [(CUDA, {"device_id": number or "0", "use_tf32": "0"}), CPU]


def _call_with_arrays(session: ort.InferenceSession, outputs: list[str], feeds: Arrays) -> list[Any]:
    """ONNX Runtime's strings are Python's str, in UTF-8 and without zero bytes."""
    texts = {name: _texts(name, array) if array.dtype == object else array for name, array in feeds.items()}
    given = session.run(outputs, texts)
    return [_bytes(array) if array.dtype == object else array for array in given]


def _call_with_values(session: ort.InferenceSession, outputs: list[str], feeds: Arrays) -> list[Any]:
    """With ONNX Runtime's own arrays, the only ones of bfloat16."""
    given = session.run_with_ort_values(outputs, {name: _value(array) for name, array in feeds.items()})
    return [_array(value) for value in given]


def _texts(name: str, array: NDArray[Any]) -> NDArray[Any]:
    items = array.ravel().tolist()
    if b"\0" in b"".join(items):
        raise RequestError(f"The input {name} has a string with a zero byte.", field=name)
    try:
        texts = [item.decode() for item in items]
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The input {name} has a string that is not UTF-8: {error}.", field=name
        ) from error
    return np.array(texts, object).reshape(array.shape)


def _bytes(array: NDArray[Any]) -> NDArray[Any]:
    return np.array([text.encode() for text in array.ravel().tolist()], object).reshape(array.shape)


def _value(array: NDArray[Any]) -> ort.OrtValue:
    if name_of(array.dtype) != BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), ONNX_BFLOAT16)


def _array(value: ort.OrtValue) -> NDArray[Any]:
    """A copy; of bfloat16 from the value's memory, since the binding knows no such array."""
    if value.element_type() != ONNX_BFLOAT16:
        return np.array(value.numpy())
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if value.data_ptr() else b""
    return np.frombuffer(bytearray(data), DTYPES[BFLOAT16]).reshape(value.shape())


def _port(path: Path, kind: str, argument: ort.NodeArg) -> TensorPort:
    """The port of an argument; ONNX Runtime gives a name, or None, for a free length."""
    sizes = tuple(size if isinstance(size, int) else None for size in argument.shape)
    dtype = known_type(path, kind, argument.name, NAMES.get(argument.type), argument.type)
    return TensorPort(argument.name, dtype, sizes)
