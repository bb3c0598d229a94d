"""The replies of text-embeddings-inference, written from arrays; the models describe them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import RootModel

from pipelines.nodes.pooling.entities import Entity
from pipelines.values.node_values import Classes, Scores
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext, encode_list
from server.schema.reply_models import Reply

Floats = NDArray[np.float32]


class Vectors(RootModel[list[list[float]]]):
    """A vector for each input."""


class TokenVectors(RootModel[list[list[list[float]]]]):
    """A vector for each token of each input."""


class SparseValue(Reply):
    index: int
    value: float


class SparseInputs(RootModel[list[list[SparseValue]]]):
    """The values that are not 0 of each input's vector over the vocabulary."""


class Prediction(Reply):
    score: float
    label: str


class LabelledEntity(Reply):
    """A token with its label, or an entity of several, and its characters; as in transformers' pipeline."""

    entity: str | None = None
    entity_group: str | None = None
    score: float
    index: int | None = None
    word: str
    start: int
    end: int


class Predictions(
    RootModel[list[Prediction] | list[list[Prediction]] | list[LabelledEntity] | list[list[LabelledEntity]]]
):
    """All labels of each input, the likeliest first, or the entities of each, of models that label tokens; of
    one input without a list around them.
    """


class RankedInput(Reply):
    index: int
    text: str | None = None
    score: float


class RankedTexts(RootModel[list[RankedInput]]):
    """The best first."""


class Similarities(RootModel[list[float]]):
    """The cosine for each sentence."""


class DecodedTexts(RootModel[list[str]]):
    """A text for each list of ids."""


def encode_vectors(context: ReplyContext, num_chars: int, rows: Floats | list[Floats]) -> EncodedReply:
    """`Vectors`, or `TokenVectors` of a list of arrays."""
    pieces = encode_list((msgspec.json.encode(row.tolist()),) for row in rows)
    return EncodedReply(b"".join(pieces), headers=_headers(context, num_chars))


def encode_sparse(context: ReplyContext, num_chars: int, rows: Iterable[tuple[Any, Any]]) -> EncodedReply:
    """`SparseInputs`, their indices in ascending order."""
    return _encoded(context, num_chars, [_sparse(*row) for row in rows])


def encode_entities(
    context: ReplyContext, num_chars: int, texts: list[list[Entity]], is_batch: bool
) -> EncodedReply:
    """`Entities`; of one input without a list around them."""
    data = [[_entity(entity) for entity in text] for text in texts]
    return _encoded(context, num_chars, data if is_batch else data[0])


def encode_predictions(
    context: ReplyContext, num_chars: int, found: Classes | Scores, is_batch: bool
) -> EncodedReply:
    """`Predictions`; labels without a name are LABEL_0, LABEL_1 …"""
    classes = found.as_classes if isinstance(found, Scores) else found
    data = [_predicted(row, classes.labels) for row in classes.values]
    return _encoded(context, num_chars, data if is_batch else data[0])


def encode_ranking(
    context: ReplyContext, num_chars: int, scores: Floats, texts: Sequence[str] | None
) -> EncodedReply:
    """`RankedTexts`, with the texts where they are given."""
    data = [
        {"index": i, **({} if texts is None else {"text": texts[i]}), "score": float(scores[i])}
        for i in np.argsort(-scores, kind="stable").tolist()
    ]
    return _encoded(context, num_chars, data)


def encode_similarities(context: ReplyContext, num_chars: int, cosines: Floats) -> EncodedReply:
    return _encoded(context, num_chars, cosines.tolist())


def _encoded(context: ReplyContext, num_chars: int, data: Any) -> EncodedReply:
    return EncodedReply(msgspec.json.encode(data), headers=_headers(context, num_chars))


def _headers(context: ReplyContext, num_chars: int) -> dict[str, str]:
    return {"x-compute-characters": str(num_chars), "x-compute-tokens": str(context.num_tokens)}


def _sparse(ids: NDArray[np.int32], weights: Floats) -> list[dict[str, Any]]:
    pairs = zip(ids.tolist(), weights.tolist(), strict=True)
    return [{"index": index, "value": value} for index, value in pairs]


def _entity(entity: Entity) -> dict[str, Any]:
    """The fields of transformers' pipeline."""
    name = "entity_group" if entity.index is None else "entity"
    place = {} if entity.index is None else {"index": entity.index}
    word = {"word": entity.word, "start": entity.start, "end": entity.end}
    return {name: entity.label, "score": entity.score, **place, **word}


def _predicted(row: Floats, labels: Sequence[str]) -> list[dict[str, Any]]:
    order = np.argsort(-row, kind="stable").tolist()
    return [{"score": float(row[i]), "label": labels[i] if i < len(labels) else f"LABEL_{i}"} for i in order]
