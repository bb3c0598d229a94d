"""Vectors in the shapes of Cohere's embed.  Knows nothing of HTTP or of bodies.

`int8` is round(127 x) for the numbers x of a vector of length 1, `uint8` the same + 128; a bit of `ubinary`
is 1 where x ≥ 0, the first number's the highest of the first byte; `binary` is `ubinary` − 128; `base64` are
the bytes of float32, little endian.  Replies are pydantic models, but written without them, from the arrays.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import RequestError
from server.generation.replies.schema import Reply
from server.pooling.replies.schema import ReplyContext, Written

Floats = NDArray[np.float32]
Vectors = list[list[float]]
Bytes = list[list[int]]


class ApiVersion(Reply):
    version: str


class BilledTokens(Reply):
    input_tokens: int
    image_tokens: int


class TokenCount(Reply):
    input_tokens: int


class EmbedMeta(Reply):
    api_version: ApiVersion
    billed_units: BilledTokens
    tokens: TokenCount


class VectorsByType(Reply):
    """Those types that were asked for."""

    float: Vectors = []
    int8: Bytes = []
    uint8: Bytes = []
    binary: Bytes = []
    ubinary: Bytes = []
    base64: list[str] = []


class EmbeddedByType(Reply):
    """`texts` are those of the request, where it held texts."""

    id: str
    response_type: Literal["embeddings_by_type"]
    embeddings: VectorsByType
    texts: list[str] = []
    meta: EmbedMeta


class EmbeddedFloats(Reply):
    """The older form, for a request that names no types."""

    id: str
    response_type: Literal["embeddings_floats"]
    embeddings: Vectors
    texts: list[str]
    meta: EmbedMeta


def by_type(
    head: ReplyContext, rows: Floats, types: Iterable[str], texts: list[str] | None, version: str
) -> Written:
    """`EmbeddedByType`; `texts` are those of the request, None where it held none.

    Raises RequestError where a size has no such type.
    """
    reply = {
        "id": head.id,
        "response_type": "embeddings_by_type",
        "embeddings": {name: TYPES[name](rows) for name in types},
        "meta": _meta(head, version),
    }
    return Written(msgspec.json.encode(reply if texts is None else {**reply, "texts": texts}))


def as_floats(head: ReplyContext, rows: Floats, texts: list[str]) -> Written:
    """`EmbeddedFloats`."""
    reply = {
        "id": head.id,
        "response_type": "embeddings_floats",
        "embeddings": _numbers(rows),
        "texts": texts,
        "meta": _meta(head, "1"),
    }
    return Written(msgspec.json.encode(reply))


def _meta(head: ReplyContext, version: str) -> dict[str, Any]:
    """`EmbedMeta`."""
    return {
        "api_version": {"version": version},
        "billed_units": {"input_tokens": head.num_tokens, "image_tokens": 0},
        "tokens": {"input_tokens": head.num_tokens},
    }


def _numbers(rows: NDArray[Any]) -> list[msgspec.Raw]:
    """Each row by itself, so that others may run between two of them."""
    return [msgspec.Raw(msgspec.json.encode(row.tolist())) for row in rows]


def _eighths(rows: Floats) -> NDArray[np.int16]:
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
    "int8": lambda rows: _numbers(_eighths(rows)),
    "uint8": lambda rows: _numbers(_eighths(rows) + 128),
    "binary": lambda rows: _numbers(_bits(rows) - 128),
    "ubinary": lambda rows: _numbers(_bits(rows)),
    "base64": lambda rows: [
        binascii.b2a_base64(row.astype("<f4").tobytes(), newline=False).decode() for row in rows
    ],
}
"""Name of a type → rows as JSON has them."""
