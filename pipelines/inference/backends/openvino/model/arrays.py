"""Arrays as OpenVINO's tensors and back, for every element type of both, and runs of requests over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.base.element_types import BFLOAT16, BYTES, DTYPES, name_of
from pipelines.base.errors import RequestError
from pipelines.inference.contracts.device_errors import ModelError

NAMES = {
    **{
        f"{kind}{bits}": f"{word}{bits}"
        for kind, word in (("i", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
    "f16": "float16",
    "bf16": BFLOAT16,
    "f32": "float32",
    "f64": "float64",
    "boolean": "bool",
    "string": BYTES,
}
"""OpenVINO's element type → the name of ours."""
WITH_STRINGS = frozenset(
    {"Concat", "Gather", "Parameter", "Reshape", "Result", "Squeeze", "StringTensorUnpack", "Transpose"}
    | {"Unsqueeze"}
)
"""Operators that OpenVINO's CPU device computes over strings; others copy them as plain memory, so that two
tensors free the same string, and the process ends.
"""
MAX_STRINGS_BYTES = 128 << 20
"""Strings come into a tensor as a table, each as wide as the widest; this is the largest table."""


def to_tensor(name: str, array: NDArray[Any]) -> ov.Tensor:
    """The tensor of input `name`; it shares the array's memory, but for strings.

    Raises RequestError for strings that OpenVINO's binding cannot take.
    """
    dtype = name_of(array.dtype)
    if dtype == BYTES:
        return _tensor_of_strings(name, array)
    if dtype == BFLOAT16:
        return ov.Tensor(array.view(np.int16), ov.Shape(array.shape), ov.Type.bf16)
    return ov.Tensor(array, shared_memory=True)


def to_array(tensor: ov.Tensor) -> NDArray[Any]:
    """A copy of a tensor's elements."""
    dtype = NAMES[tensor.element_type.get_type_name()]
    if dtype == BYTES:
        return _array_of_strings(tensor)
    if dtype == BFLOAT16:
        return tensor.data.view(np.int16).view(DTYPES[BFLOAT16]).copy()  # type: ignore[no-any-return]
    return tensor.data.copy()  # type: ignore[no-any-return]


def check_strings(path: Path, model: ov.Model) -> None:
    """Raise `ModelError` where an operator of the model would end the process on strings."""
    for operator in model.get_ops():
        ports = [*operator.inputs(), *operator.outputs()]
        of_strings = any(port.get_element_type() == ov.Type.string for port in ports)
        if of_strings and operator.get_type_name() not in WITH_STRINGS:
            raise ModelError(
                f"{path}: OpenVINO cannot compute {operator.get_type_name()} over strings; serve the model "
                "as ONNX with `engine: onnxruntime`."
            )


def _tensor_of_strings(name: str, array: NDArray[Any]) -> ov.Tensor:
    lengths = np.fromiter(map(len, array.flat), np.int64, array.size).reshape(array.shape)
    widest = int(lengths.max(initial=0))
    if widest * array.size > MAX_STRINGS_BYTES:
        raise RequestError(
            f"The input {name} has {array.size} strings, the longest of {widest} bytes; the product may be "
            f"{MAX_STRINGS_BYTES}. Send fewer of them, or shorter ones.",
            field=name,
        )
    table = array.astype(f"S{max(1, widest)}")
    if (np.strings.str_len(table) != lengths).any():
        raise RequestError(f"The input {name} has a string that ends with a zero byte.", field=name)
    tensor = ov.Tensor(ov.Type.string, ov.Shape(array.shape))
    if table.size:
        tensor.bytes_data = table
    return tensor


def _array_of_strings(tensor: ov.Tensor) -> NDArray[Any]:
    """Read with one row more, which is not empty.

    `bytes_data` divides by zero without strings, and reads foreign memory where all of them are empty.
    """
    shape = tuple(tensor.shape)
    if not shape:
        return np.array(tensor.bytes_data.item() if tensor.str_data.item() else b"", object)
    more = ov.Tensor(ov.Type.string, ov.Shape((shape[0] + 1, *shape[1:])))
    if not more.size:
        return np.empty(shape, object)
    more.bytes_data = np.full(tuple(more.shape), b"x")
    if tensor.size:
        tensor.copy_to(ov.Tensor(more, ov.Coordinate([0] * len(shape)), ov.Coordinate(shape)))
    return more.bytes_data[:-1].astype(object)  # type: ignore[no-any-return]


def inference_of(compiled: ov.CompiledModel) -> Callable[[ov.InferRequest], None]:
    """What computes a request of a model that has its inputs.  It raises RuntimeError where an operator
    fails.

    `infer` of OpenVINO 2026.4 raises nothing where a model has one thread: the outputs of the request stay
    those of its last run.  The wait for a request that was started raises there too, some microseconds later.
    """
    return _started if compiled.get_property("INFERENCE_NUM_THREADS") == 1 else _at_once


def _at_once(request: ov.InferRequest) -> None:
    request.infer(share_outputs=True, decode_strings=False)


def _started(request: ov.InferRequest) -> None:
    request.start_async()
    request.wait()
