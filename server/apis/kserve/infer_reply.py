"""The reply of infer over HTTP."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pipelines.values.node_values import Tensors
from server.apis.kserve.binary_data import to_bytes
from server.apis.kserve.datatypes import datatype_of
from server.apis.kserve.inference import Inference
from server.apis.kserve.json_data import to_json
from server.apis.kserve.messages import InferOutput, InferReply


class EncodedInfer(NamedTuple):
    """`json_length` is None where no bytes follow the JSON."""

    data: bytes
    json_length: int | None


def encode_infer(name: str, version: int, inference: Inference, tensors: Tensors) -> EncodedInfer:
    """The reply as bytes.  Raises RequestError for tensors that JSON cannot hold where it was asked for."""
    outputs, tail = [], []
    for output, array in tensors.items():
        described = InferOutput(output, datatype_of(array), list(array.shape))
        if inference.is_binary(output):
            tail.append(to_bytes(array))
            described.parameters = {"binary_data_size": len(tail[-1])}
        else:
            described.data = to_json(array, output)
        outputs.append(described)
    head = msgspec.json.encode(InferReply(name, str(version), outputs, inference.id))
    return EncodedInfer(b"".join([head, *tail]), len(head) if tail else None)
