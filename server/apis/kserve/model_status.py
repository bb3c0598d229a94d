"""TensorFlow Serving's description of a model: the state of its versions, and its only signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.wire.messages import TensorSpec, how_far
from pipelines.worker.model_table import ModelCard
from server.apis.kserve.served import Served

STATES = {"ready": "AVAILABLE", "unloaded": "AVAILABLE", "loading": "LOADING", "unloading": "UNLOADING"}
"""State of a model here → there; any other is END."""
TYPES = {
    "bool": "DT_BOOL",
    "uint8": "DT_UINT8",
    "uint16": "DT_UINT16",
    "uint32": "DT_UINT32",
    "uint64": "DT_UINT64",
    "int8": "DT_INT8",
    "int16": "DT_INT16",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "float16": "DT_HALF",
    "bfloat16": "DT_BFLOAT16",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "bytes": "DT_STRING",
}


def version_status(card: ModelCard) -> dict[str, Any]:
    """The reply about one version; the message of one that is loading says how far it is."""
    state = STATES.get(card.state, "END")
    status = {"error_code": "OK", "error_message": how_far(card.doing, card.share) or "OK"}
    if state == "END":
        status = {"error_code": "UNKNOWN", "error_message": "; ".join(card.problems)}
    return {"model_version_status": [{"version": str(card.version), "state": state, "status": status}]}


def signature(served: Served) -> dict[str, Any]:
    """The reply about inputs and outputs."""
    tensors = {"inputs": _tensors(served.status.inputs), "outputs": _tensors(served.status.outputs)}
    return {
        "model_spec": {
            "name": served.name,
            "signature_name": "",
            "version": str(served.status.version),
        },
        "metadata": {
            "signature_def": {
                "@type": "type.googleapis.com/tensorflow.serving.SignatureDefMap",
                "signature_def": {"serving_default": {**tensors, "method_name": ""}},
            }
        },
    }


def _tensors(specs: Sequence[TensorSpec]) -> dict[str, Any]:
    return {
        spec.name: {
            "dtype": TYPES.get(spec.dtype, "DT_INVALID"),
            "tensor_shape": {
                "dim": [
                    {"size": str(-1 if length is None else length), "name": ""} for length in spec.shape or []
                ],
                "unknown_rank": spec.shape is None,
            },
            "name": spec.name,
        }
        for spec in specs
    }
