"""TensorFlow Serving's REST bodies: rows (`instances`) and columns (`inputs`) of tensors in nested lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from graphs.errors import hint
from pipelines.base.errors import RequestError
from pipelines.values.node_values import Tensors
from pipelines.wire.messages import TensorSpec
from server.apis.kserve.datatypes import BINARY_ONLY, DATATYPES
from server.apis.kserve.json_data import json_values, nested_array
from server.http.request_body import BYTE_ORDER_MARK, check_structure

SIGNATURES = ("", "serving_default", "predict")
"""Names of the only signature that a model has."""


class PredictRequest(msgspec.Struct):
    """The body of predict: `instances` or `inputs`."""

    signature_name: str | None = None
    instances: list[msgspec.Raw] | None = None
    inputs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_REQUEST = msgspec.json.Decoder(PredictRequest)
_COLUMNS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_predict(body: bytes, specs: Sequence[TensorSpec]) -> tuple[Tensors, bool]:
    """The tensors of a body, and whether they came in rows.  Raises RequestError."""
    text = body.removeprefix(BYTE_ORDER_MARK)
    check_structure(text)
    try:
        request = _REQUEST.decode(text)
        columns = _columns(request, [spec.name for spec in specs])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not a predict request: {error}") from None
    if request.signature_name not in (None, *SIGNATURES):
        raise RequestError("`signature_name` must be serving_default, the only one", "signature_name")
    known = {spec.name: spec for spec in specs}
    for name in columns:
        if name not in known:
            raise RequestError(f"This model has no input {name}{hint(name, known, 'inputs')}", field=name)
    read = {
        name: nested_array(memoryview(text), DATATYPES[known[name].dtype], name)
        for name, text in columns.items()
    }
    return Tensors(read), request.instances is not None


def _columns(request: PredictRequest, names: list[str]) -> Mapping[str, bytes | msgspec.Raw]:
    """Input → the JSON text of its values."""
    if (request.instances is None) == (request.inputs is msgspec.UNSET):
        raise RequestError("a predict request has either `instances` or `inputs`")
    if request.instances is None:
        assert isinstance(request.inputs, msgspec.Raw)
        return _named(request.inputs) or {_only(names): request.inputs}
    rows = [_named(row) for row in request.instances]
    if not rows or not rows[0]:
        return {_only(names): _list(request.instances)}
    if any(row.keys() != rows[0].keys() for row in rows):
        raise RequestError("every one of `instances` must have the same inputs", field="instances")
    return {name: _list([row[name] for row in rows]) for name in rows[0]}


def _named(text: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of an object; {} for a plain value, as one in base64 is too."""
    if bytes(memoryview(text)[:1]) != b"{":
        return {}
    found = _COLUMNS.decode(text)
    return {} if list(found) == ["b64"] else found


def _list(texts: Sequence[msgspec.Raw]) -> bytes:
    return b"[" + b",".join(map(bytes, texts)) + b"]"


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise RequestError(f"This model has several inputs: {', '.join(names)}; name each of them")
    return names[0]


def encode_predict(tensors: Tensors, in_rows: bool) -> bytes:
    """The reply in the form of the request.  Raises RequestError for outputs that have no such form."""
    values = {name: json_values(_in_json(array), name) for name, array in tensors.items()}
    if not in_rows:
        return msgspec.json.encode({"outputs": next(iter(values.values())) if len(values) == 1 else values})
    if len({array.shape[:1] for array in tensors.values()}) != 1 or any(not a.ndim for a in tensors.values()):
        raise RequestError("the outputs are of several lengths; send `inputs` instead of `instances`")
    columns = list(values.values())
    rows = (
        columns[0]
        if len(columns) == 1
        else [dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True)]
    )
    return msgspec.json.encode({"predictions": rows})


def _in_json(array: NDArray[Any]) -> NDArray[Any]:
    """Half floats as floats, which JSON holds."""
    return array.astype(np.float32) if DATATYPES.get(array.dtype.name) in BINARY_ONLY else array
