"""Ways to ask a server for one inference: in JSON, with bytes behind the JSON, over gRPC.

Each has a connection for each thread, but gRPC, whose channel takes all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tools.client.http_client import Answer, local_client
from tools.lab.bench.tensors.model import INPUT, NAME, OUTPUT, Rows

TIMEOUT_S = 60.0
PATH = f"/v2/models/{NAME}/infer"
LENGTH = "Inference-Header-Content-Length"
Ask = Callable[[Rows], Rows]


class Question(NamedTuple):
    """A request; `headers` are those beside the usual ones."""

    path: str
    body: bytes
    headers: Mapping[str, str] = {}


def in_json(rows: Rows) -> Question:
    tensor = {"name": INPUT, "shape": rows.shape, "datatype": "FP32", "data": rows.ravel().tolist()}
    return Question(PATH, json.dumps({"inputs": [tensor]}).encode())


def as_bytes(rows: Rows) -> Question:
    size = {"binary_data_size": rows.nbytes}
    tensor = {"name": INPUT, "shape": rows.shape, "datatype": "FP32", "parameters": size}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return Question(PATH, head + rows.tobytes(), {LENGTH: str(len(head))})


class _OverHTTP:
    def __init__(self, port: int) -> None:
        self._client = local_client(port, TIMEOUT_S)

    def _post(self, question: Question) -> Answer:
        """Raises RequestFailed."""
        return self._client.send("POST", *question)


class InJSON(_OverHTTP):
    def __call__(self, rows: Rows) -> Rows:
        (found,) = json.loads(self._post(in_json(rows)).body)["outputs"]
        return np.array(found["data"], np.float32).reshape(found["shape"])


class AsBytes(_OverHTTP):
    def __call__(self, rows: Rows) -> Rows:
        headers, data = self._post(as_bytes(rows))
        length = int(headers[LENGTH])
        (found,) = json.loads(data[:length])["outputs"]
        return np.frombuffer(data[length:], np.float32).reshape(found["shape"])


class OverGRPC:
    """Raises ImportError without the extra `grpc`."""

    def __init__(self, port: int) -> None:
        import grpc

        from server.apis.kserve.grpc.schema import SERVICE, TYPES

        self._request: Any = TYPES["ModelInferRequest"]
        self._call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=TYPES["ModelInferResponse"].FromString,
        )

    def __call__(self, rows: Rows) -> Rows:
        request = self._request(model_name=NAME)
        request.inputs.add(name=INPUT, datatype="FP32", shape=rows.shape)
        request.raw_input_contents.append(rows.tobytes())
        reply = self._call(request, timeout=TIMEOUT_S)
        assert reply.outputs[0].name == OUTPUT
        return np.frombuffer(reply.raw_output_contents[0], np.float32).reshape(list(reply.outputs[0].shape))
