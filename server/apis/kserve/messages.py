"""The JSON of KServe's protocol: what clients send and what they get."""

from __future__ import annotations

from typing import Any

import msgspec

Parameters = dict[str, Any]


class InferInput(msgspec.Struct):
    """One tensor of a request; its elements are `data`, or bytes after the JSON."""

    name: str
    datatype: str
    shape: list[int]
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: Parameters | None = None


class RequestedOutput(msgspec.Struct):
    """A tensor that the reply is to hold; `binary_data` among its parameters says in which form."""

    name: str
    parameters: Parameters | None = None


class InferRequest(msgspec.Struct):
    """The body of infer."""

    inputs: list[InferInput]
    outputs: list[RequestedOutput] | None = None
    id: str | None = None
    parameters: Parameters | None = None


class InferOutput(msgspec.Struct, omit_defaults=True):
    """One tensor of a reply."""

    name: str
    datatype: str
    shape: list[int]
    parameters: Parameters | None = None
    data: list[Any] | None = None


class InferReply(msgspec.Struct, omit_defaults=True):
    """The reply of infer; bytes of tensors follow it."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str | None = None


class TensorMetadata(msgspec.Struct):
    """A named input or output; a length is -1 where it is free, and so is a whole shape of any rank."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ModelReadiness(msgspec.Struct):
    name: str
    ready: bool


class ModelNames(msgspec.Struct):
    models: list[str]


class ServerMetadata(msgspec.Struct):
    name: str
    version: str
    extensions: list[str]
