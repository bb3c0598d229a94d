"""Infer requests and replies as messages of gRPC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Tensors
from server.apis.kserve import parameters
from server.apis.kserve.binary_data import from_bytes, objects, to_bytes
from server.apis.kserve.datatypes import BYTES, datatype_of, dtype_of
from server.apis.kserve.grpc.schema import TYPES
from server.apis.kserve.inference import Inference, unique
from server.apis.kserve.shapes import num_elements

CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
"""Datatype → the field of its elements where they are not sent as raw bytes; FP16 and BF16 have none."""


def read_message(request: Any) -> Inference:
    """The request that a ModelInferRequest holds.  Raises RequestError."""
    request_parameters = plain(request.parameters)
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(
            f"The request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents",
            "raw_input_contents",
        )
    inputs = Tensors()
    for at, tensor in enumerate(unique(request.inputs, "input")):
        parameters.check_input(plain(tensor.parameters))
        inputs[tensor.name] = _array(tensor, raw[at] if raw else None)
    for output in unique(request.outputs, "output"):
        parameters.check_output(plain(output.parameters))
    outputs = {output.name: True for output in request.outputs} or None
    return Inference(request.id or None, inputs, outputs, binary=True, parameters=request_parameters)


def work_size(request: Any) -> int:
    """How many bytes take time to read: texts, and elements that are not sent as raw bytes."""
    reads_fast = request.raw_input_contents and all(each.datatype != BYTES for each in request.inputs)
    return 0 if reads_fast else int(request.ByteSize())


def reply_message(name: str, version: int, request_id: str | None, tensors: Tensors) -> Any:
    """The ModelInferResponse of tensors, with raw bytes."""
    reply = TYPES["ModelInferResponse"](model_name=name, model_version=str(version), id=request_id or "")
    for output, array in tensors.items():
        reply.outputs.add(name=output, datatype=datatype_of(array), shape=array.shape)
        reply.raw_output_contents.append(to_bytes(array))
    return reply


def plain(given: Any) -> dict[str, Any]:
    """Parameters as values; one without a value is None."""
    return {name: getattr(each, each.WhichOneof("choice") or "", None) for name, each in given.items()}


def _array(tensor: Any, raw: bytes | None) -> NDArray[Any]:
    if raw is not None:
        if tensor.HasField("contents"):
            raise RequestError(f"The input {tensor.name} has contents and raw_input_contents", tensor.name)
        return from_bytes(memoryview(raw), tensor.datatype, tensor.shape, tensor.name)
    count, dtype = num_elements(tensor.shape, tensor.name), dtype_of(tensor.datatype, tensor.name)
    field = CONTENTS.get(tensor.datatype)
    if field is None:
        raise RequestError(
            f"The input {tensor.name} is {tensor.datatype}: send raw_input_contents", tensor.name
        )
    values = getattr(tensor.contents, field)
    if len(values) != count:
        raise RequestError(
            f"The input {tensor.name} has {len(values)} elements in {field}; its shape {list(tensor.shape)} "
            f"takes {count}",
            field=tensor.name,
        )
    return _filled(values, dtype, tensor)


def _filled(values: Iterable[Any], dtype: np.dtype[Any], tensor: Any) -> NDArray[Any]:
    if tensor.datatype == BYTES:
        return objects(list(values), tensor.shape)
    try:
        return np.array(values, dtype).reshape(tensor.shape)
    except OverflowError as error:
        raise RequestError(
            f"The input {tensor.name} does not fit {tensor.datatype}: {error}", tensor.name
        ) from None
