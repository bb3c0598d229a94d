"""Requests of KServe's protocol as its clients write them, and the applications that they are sent to."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from server.base.settings import Settings
from server.connect import make_services
from server.services.services import Services

IMAGE = np.arange(8, dtype=np.float32).reshape(2, 4)
HEADER = "Inference-Header-Content-Length"
NUMBERS = {
    "FP32": "float",
    "FP64": "double",
    "FP16": "float16",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "BOOL": "bool",
}
"""KServe's name of a type → ONNX's."""
TYPES = "types ({}) => ({}) {{ {} }}".format(
    ", ".join(f"{onnx}[n] {name}" for name, onnx in NUMBERS.items()),
    ", ".join(f"{onnx}[n] same_{name}" for name, onnx in NUMBERS.items()),
    "\n".join(f"same_{name} = Identity ({name})" for name in NUMBERS),
)


def services(models, **settings: Any) -> Services:
    chosen = Settings(models=models, **settings)
    client = InProcessClient(ModelSource(models))
    return make_services(chosen, client)


class Asked(httpx.Client):
    """A client of a served application."""

    def infer(self, model: str, body: dict[str, Any], tail: bytes = b"", **more: Any) -> httpx.Response:
        """One inference; `tail` are the bytes after the JSON."""
        head = json.dumps(body).encode()
        headers = {HEADER: str(len(head))} if tail else {}
        return self.post(f"/v2/models/{model}/infer", content=head + tail, headers=headers, **more)


def tensors_of(reply: httpx.Response) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Name → the output as the JSON has it, and its bytes."""
    assert reply.status_code == 200, reply.text
    length = int(reply.headers.get(HEADER, len(reply.content)))
    outputs, at = {}, length
    for output in json.loads(reply.content[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size", 0)
        outputs[output["name"]] = output, reply.content[at : at + size]
        at += size
    assert at == len(reply.content)
    return outputs


def as_input(name: str, array: np.ndarray, datatype: str = "FP32", **parameters: Any) -> dict[str, Any]:
    """A tensor in JSON, or with `binary_data_size` among the parameters without its data."""
    made = {"name": name, "shape": list(array.shape), "datatype": datatype}
    if parameters:
        return made | {"parameters": parameters}
    return made | {"data": array.tolist()}
