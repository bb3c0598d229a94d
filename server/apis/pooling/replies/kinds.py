"""Encodes embeddings of several kinds in one reply: dense ones, sparse ones, and those of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from pipelines.nodes.pooling.sparse_vectors import pruned
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.values.node_values import SparseVectors, Vectors
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext, encode_list_reply
from server.apis.pooling.replies.vectors import VectorFormat, encode_values, requested_format

TokenText = Callable[[int], str | None]
"""The text of a token id, as the vocabulary has it."""
DENSE, SPARSE, OF_TOKENS = "embedding", "sparse_embedding", "token_embeddings"
"""Fields of an item for each kind; a second result of a kind has the name with which it was requested."""


def encode_kinds(
    context: ReplyContext, request: EmbeddingRequest, named: Mapping[str, Vectors], text_of: TokenText
) -> EncodedReply:
    """A list reply, an item for each text; `embedding` is null where no dense vectors were requested."""
    columns = dict(_columns(request, named, text_of))
    if DENSE not in columns:
        num_texts = len(next(iter(named.values())))
        columns = {DENSE: iter([[b"null"]] * num_texts), **columns}
    names = [b'"' + name.encode() + b'":' for name in columns]
    rows = enumerate(zip(*columns.values(), strict=True))
    return EncodedReply(encode_list_reply(context, (_item(index, names, row) for index, row in rows)))


def _item(index: int, names: list[bytes], row: tuple[Iterable[bytes], ...]) -> Iterator[bytes]:
    yield b'{"index":%d,"object":"embedding"' % index
    for name, value in zip(names, row, strict=True):
        yield from chain((b",", name), value)
    yield b"}"


def _columns(
    request: EmbeddingRequest, named: Mapping[str, Vectors], text_of: TokenText
) -> Iterator[tuple[str, Iterator[Iterable[bytes]]]]:
    """(field, its value for each text) of each kind."""
    used = set[str]()
    for word, vectors in named.items():
        field = _field(vectors)
        field = msgspec.json.encode(word).decode()[1:-1] if field in used else field
        used.add(field)
        if isinstance(vectors, SparseVectors):
            yield field, _sparse(vectors, request, text_of)
        else:
            yield field, encode_values(vectors, requested_format(request))
            if isinstance(vectors, list) and _is_packed(requested_format(request)):
                shapes = [[msgspec.json.encode(text.shape)] for text in vectors]
                yield f"{field}_shape", iter(shapes)


def _is_packed(given: VectorFormat) -> bool:
    return given.format == "base64"


def _field(vectors: Vectors) -> str:
    if isinstance(vectors, SparseVectors):
        return SPARSE
    return OF_TOKENS if isinstance(vectors, list) else DENSE


def _sparse(
    vectors: SparseVectors, request: EmbeddingRequest, text_of: TokenText
) -> Iterator[Iterable[bytes]]:
    form = FORMS[request.sparse_format or "indices"]
    chosen = pruned(vectors, request.sparse_top_k, request.sparse_threshold)
    for ids, weights in chosen:
        yield (msgspec.json.encode(form(ids.tolist(), weights.tolist(), text_of)),)


def _pairs(ids: list[int], weights: list[float]) -> Iterator[tuple[int, float]]:
    return zip(ids, weights, strict=True)


Form = Callable[[list[int], list[float], TokenText], Any]
FORMS: dict[str, Form] = {
    "indices": lambda ids, weights, _: {"indices": ids, "values": weights},
    "ids": lambda ids, weights, _: {str(key): weight for key, weight in _pairs(ids, weights)},
    "tokens": lambda ids, weights, text_of: {
        text_of(key) or str(key): weight for key, weight in _pairs(ids, weights)
    },
    "list": lambda ids, weights, _: [{"index": key, "value": weight} for key, weight in _pairs(ids, weights)],
}
"""`sparse_format` → a sparse vector as Qdrant, as Milvus, as Elasticsearch and OpenSearch, and as
text-embeddings-inference have it.
"""
