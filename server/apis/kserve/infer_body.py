"""The body of an infer request over HTTP: JSON, and after it the bytes of tensors in the order of inputs."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Tensors
from server.apis.kserve import parameters
from server.apis.kserve.binary_data import from_bytes, one_text
from server.apis.kserve.datatypes import BYTES, dtype_of
from server.apis.kserve.inference import Inference, unique
from server.apis.kserve.json_data import from_json
from server.apis.kserve.messages import InferInput, InferRequest
from server.apis.kserve.shapes import num_elements
from server.http.request_body import BYTE_ORDER_MARK, check_structure

HEADER = "Inference-Header-Content-Length"
"""The length of the JSON, where bytes follow it."""
_REQUEST = msgspec.json.Decoder(InferRequest)


def json_length(body: bytes, header: str | None) -> int:
    """How much of a body is JSON.  Raises RequestError."""
    if header is None:
        return len(body)
    if not re.fullmatch("[0-9]{1,15}", header.strip()) or int(header) > len(body):
        raise RequestError(f"{HEADER} must be a number of at most {len(body)}, the bytes of the body", HEADER)
    return int(header)


def work_size(body: bytes, length: int) -> int:
    """How many bytes take time to read: JSON, and texts; numbers behind the JSON are read as they are."""
    return len(body) if f'"{BYTES}"'.encode() in body[:length] else length


def read_infer(body: bytes, length: int) -> Inference:
    """The request that a body holds; the first `length` bytes are JSON.  Raises RequestError."""
    head = body[:length].removeprefix(BYTE_ORDER_MARK)
    check_structure(head)
    try:
        request = _REQUEST.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not an infer request: {error}") from None
    reader = _InputReader(memoryview(body)[length:])
    inputs = {
        tensor.name: reader.read(tensor, len(request.inputs)) for tensor in unique(request.inputs, "input")
    }
    reader.check_end()
    binary = parameters.flag(request.parameters, "binary_data_output", default=False)
    outputs = None
    if request.outputs:
        outputs = {}
        for output in unique(request.outputs, "output"):
            parameters.check_output(output.parameters)
            outputs[output.name] = parameters.flag(output.parameters, "binary_data", binary)
    return Inference(request.id, Tensors(inputs), outputs, binary, request.parameters or {})


class _InputReader:
    """Reads tensors one after another from what follows the JSON."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, tensor: InferInput, num_inputs: int) -> Any:
        parameters.check_input(tensor.parameters)
        size = (tensor.parameters or {}).get("binary_data_size")
        text = None if tensor.data is msgspec.UNSET else memoryview(tensor.data)
        if text is not None and size is not None:
            raise RequestError(f"The input {tensor.name} has both `data` and `binary_data_size`", tensor.name)
        if text is not None:
            return from_json(text, tensor.datatype, tensor.shape, tensor.name)
        if size is None and not self._data:
            raise RequestError(f"The input {tensor.name} has no `data`", field=tensor.name)
        if size is None and tensor.datatype == BYTES:
            return self._only_text(tensor, num_inputs)
        if size is None:
            size = num_elements(tensor.shape, tensor.name) * dtype_of(tensor.datatype, tensor.name).itemsize
        return from_bytes(self._take(size, tensor.name), tensor.datatype, tensor.shape, tensor.name)

    def _only_text(self, tensor: InferInput, num_inputs: int) -> Any:
        """Gives the one text of a body, which needs no length, as in OpenVINO Model Server."""
        if num_inputs > 1 or tensor.shape != [1]:
            raise RequestError(f"The input {tensor.name} needs its `binary_data_size`", field=tensor.name)
        return one_text(self._take(len(self._data), tensor.name))

    def _take(self, size: Any, name: str) -> memoryview:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise RequestError(f"`binary_data_size` of {name} must be an integer of 0 or more", name)
        if size > len(self._data) - self._at:
            raise RequestError(
                f"The input {name} has {size} bytes by its `binary_data_size` or shape; "
                f"{len(self._data) - self._at} are left in the body",
                field=name,
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def check_end(self) -> None:
        left = len(self._data) - self._at
        if left:
            raise RequestError(f"{left} bytes follow the tensors of the request")
