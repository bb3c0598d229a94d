"""Encodes embeddings in the shapes of Cohere's embed API.

`int8` is round(127 x) for the numbers x of a vector of length 1, `uint8` the same + 128; a bit of `ubinary`
is 1 where x ≥ 0, the first number at the highest bit of the first byte; `binary` is `ubinary` − 128;
`base64` are the bytes of float32, little endian.  The models describe the replies; encoding works on the
arrays directly.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.schema.reply_models import Reply

Floats = NDArray[np.float32]
Vectors = list[list[float]]
Bytes = list[list[int]]


class CohereApiVersion(Reply):
    version: str


class BilledTokens(Reply):
    input_tokens: int
    image_tokens: int


class CohereTokens(Reply):
    input_tokens: int


class EmbedMeta(Reply):
    api_version: CohereApiVersion
    billed_units: BilledTokens
    tokens: CohereTokens


class VectorsByType(Reply):
    """The requested types."""

    float: Vectors = []
    int8: Bytes = []
    uint8: Bytes = []
    binary: Bytes = []
    ubinary: Bytes = []
    base64: list[str] = []


class EmbedByTypeReply(Reply):
    """`texts` are those of the request, if it had texts."""

    id: str
    response_type: Literal["embeddings_by_type"]
    embeddings: VectorsByType
    texts: list[str] = []
    meta: EmbedMeta


class EmbedFloatsReply(Reply):
    """The reply of API version 1 to a request without types."""

    id: str
    response_type: Literal["embeddings_floats"]
    embeddings: Vectors
    texts: list[str]
    meta: EmbedMeta


def encode_by_type(
    context: ReplyContext, rows: Floats, types: Iterable[str], texts: list[str] | None, version: str
) -> EncodedReply:
    """An `EmbedByTypeReply`; `texts` are those of the request, None if it had none.

    Raises RequestError when a type does not fit the embedding size.
    """
    reply = {
        "id": context.id,
        "response_type": "embeddings_by_type",
        "embeddings": {name: TYPES[name](rows) for name in types},
        "meta": _meta(context, version),
    }
    return EncodedReply(msgspec.json.encode(reply if texts is None else {**reply, "texts": texts}))


def encode_floats(context: ReplyContext, rows: Floats, texts: list[str]) -> EncodedReply:
    """An `EmbedFloatsReply`."""
    reply = {
        "id": context.id,
        "response_type": "embeddings_floats",
        "embeddings": _numbers(rows),
        "texts": texts,
        "meta": _meta(context, "1"),
    }
    return EncodedReply(msgspec.json.encode(reply))


def _meta(context: ReplyContext, version: str) -> dict[str, Any]:
    """An `EmbedMeta`; what is billed is text or image."""
    num_texts = context.num_tokens - context.num_image_tokens
    return {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": num_texts, "image_tokens": context.num_image_tokens},
        "tokens": {"input_tokens": context.num_tokens},
    }


def _numbers(rows: NDArray[Any]) -> list[msgspec.Raw]:
    """Each embedding encoded separately, so that other threads can run between two of them."""
    return [msgspec.Raw(msgspec.json.encode(row.tolist())) for row in rows]


def _scaled(rows: Floats) -> NDArray[np.int16]:
    return np.clip(np.rint(rows * 127), -128, 127).astype(np.int16)


def _bits(rows: Floats) -> NDArray[np.int16]:
    if rows.shape[1] % 8:
        raise RequestError(
            f"Embedding dimension must be a multiple of 8 for binary embedding types, got {rows.shape[1]}.",
            field="embedding_types",
        )
    return np.packbits(rows >= 0, axis=1).astype(np.int16)


TYPES: dict[str, Callable[[Floats], Any]] = {
    "float": _numbers,
    "int8": lambda rows: _numbers(_scaled(rows)),
    "uint8": lambda rows: _numbers(_scaled(rows) + 128),
    "binary": lambda rows: _numbers(_bits(rows) - 128),
    "ubinary": lambda rows: _numbers(_bits(rows)),
    "base64": lambda rows: [
        binascii.b2a_base64(row.astype("<f4").tobytes(), newline=False).decode() for row in rows
    ],
}
"""Type name → converter of embeddings (float32[n, size]) to JSON values."""
