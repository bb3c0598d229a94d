"""The messages of KServe's protocol over gRPC: a table of fields, and the classes made from it."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

TENSOR = {
    "name": (1, "string"),
    "datatype": (2, "string"),
    "shape": (3, "repeated int64"),
    "parameters": (4, "map InferParameter"),
    "contents": (5, "InferTensorContents"),
}
DESCRIPTION = {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "repeated int64")}
OF_A_MODEL = {"name": (1, "string"), "version": (2, "string")}
FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {"live": (1, "bool")},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": (1, "bool")},
    "ModelReadyRequest": OF_A_MODEL,
    "ModelReadyResponse": {"ready": (1, "bool")},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {
        "name": (1, "string"),
        "version": (2, "string"),
        "extensions": (3, "repeated string"),
    },
    "ModelMetadataRequest": OF_A_MODEL,
    "TensorMetadata": DESCRIPTION,
    "ModelMetadataResponse": {
        "name": (1, "string"),
        "versions": (2, "repeated string"),
        "platform": (3, "string"),
        "inputs": (4, "repeated TensorMetadata"),
        "outputs": (5, "repeated TensorMetadata"),
    },
    "ModelConfigRequest": OF_A_MODEL,
    "ModelInput": {"name": (1, "string"), "data_type": (2, "DataType"), "dims": (4, "repeated int64")},
    "ModelOutput": {"name": (1, "string"), "data_type": (2, "DataType"), "dims": (3, "repeated int64")},
    "ModelConfig": {
        "name": (1, "string"),
        "platform": (2, "string"),
        "max_batch_size": (4, "int32"),
        "input": (5, "repeated ModelInput"),
        "output": (6, "repeated ModelOutput"),
        "backend": (17, "string"),
    },
    "ModelConfigResponse": {"config": (1, "ModelConfig")},
    "ModelStatisticsRequest": OF_A_MODEL,
    "StatisticDuration": {"count": (1, "uint64"), "ns": (2, "uint64")},
    "InferStatistics": {"compute_infer": (5, "StatisticDuration")},
    "ModelStatistics": {
        "name": (1, "string"),
        "version": (2, "string"),
        "inference_count": (4, "uint64"),
        "execution_count": (5, "uint64"),
        "inference_stats": (6, "InferStatistics"),
    },
    "ModelStatisticsResponse": {"model_stats": (1, "repeated ModelStatistics")},
    "RepositoryIndexRequest": {"repository_name": (1, "string"), "ready": (2, "bool")},
    "ModelIndex": {
        "name": (1, "string"),
        "version": (2, "string"),
        "state": (3, "string"),
        "reason": (4, "string"),
    },
    "RepositoryIndexResponse": {"models": (1, "repeated ModelIndex")},
    "InferParameter": {
        "bool_param": (1, "oneof bool"),
        "int64_param": (2, "oneof int64"),
        "string_param": (3, "oneof string"),
        "double_param": (4, "oneof double"),
        "uint64_param": (5, "oneof uint64"),
    },
    "InferTensorContents": {
        "bool_contents": (1, "repeated bool"),
        "int_contents": (2, "repeated int32"),
        "int64_contents": (3, "repeated int64"),
        "uint_contents": (4, "repeated uint32"),
        "uint64_contents": (5, "repeated uint64"),
        "fp32_contents": (6, "repeated float"),
        "fp64_contents": (7, "repeated double"),
        "bytes_contents": (8, "repeated bytes"),
    },
    "InferInputTensor": TENSOR,
    "InferOutputTensor": TENSOR,
    "InferRequestedOutputTensor": {"name": (1, "string"), "parameters": (2, "map InferParameter")},
    "ModelInferRequest": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map InferParameter"),
        "inputs": (5, "repeated InferInputTensor"),
        "outputs": (6, "repeated InferRequestedOutputTensor"),
        "raw_input_contents": (7, "repeated bytes"),
    },
    "ModelInferResponse": {
        "model_name": (1, "string"),
        "model_version": (2, "string"),
        "id": (3, "string"),
        "parameters": (4, "map InferParameter"),
        "outputs": (5, "repeated InferOutputTensor"),
        "raw_output_contents": (6, "repeated bytes"),
    },
    "ModelStreamInferResponse": {
        "error_message": (1, "string"),
        "infer_response": (2, "ModelInferResponse"),
    },
}
"""Message → field → its number and type; those of the protocol, which names some of them inside others.

`map` is one from texts to a message; fields that are `oneof` exclude each other.
"""
DATA_TYPES = (
    *("INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "STRING", "BF16"),
)
"""Triton's, by their numbers."""
Field = descriptor_pb2.FieldDescriptorProto


def _types() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="braid_kserve.proto", package=PACKAGE, syntax="proto3")
    words = file.enum_type.add(name="DataType")
    for number, word in enumerate(DATA_TYPES):
        words.value.add(name=f"TYPE_{word}", number=number)
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in FIELDS
    }


def _add(message: Any, name: str, number: int, kind: str) -> None:
    label, _, kind = kind.rpartition(" ")
    field = message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
    if label in ("repeated", "map"):
        field.label = Field.LABEL_REPEATED
    if label == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="choice")
        field.oneof_index = 0
    if label == "map":
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string")
        _add(entry, "value", 2, kind)
        kind = f"{message.name}.{entry.name}"
    if kind.islower() or kind[-2:] in ("32", "64"):
        field.type = getattr(Field, f"TYPE_{kind.upper()}")
    else:
        field.type = Field.TYPE_ENUM if kind == "DataType" else Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"


TYPES = _types()
"""Message → its class."""
