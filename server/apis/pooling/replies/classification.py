"""Encodes class probabilities, and entities that were found, as a reply."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.values.node_values import Classes, FoundEntities, Scores
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext, encode_list_reply


def encode_classes(context: ReplyContext, pooled: Classes | Scores) -> EncodedReply:
    """The most probable class of each text, and all probabilities; a score counts as the only class."""
    if isinstance(pooled, Scores):
        pooled = pooled.as_classes
    best = np.argmax(pooled.values, axis=1).tolist()
    pairs = enumerate(zip(pooled.values, best, strict=True))
    return EncodedReply(
        encode_list_reply(context, ((_item(i, probs, pooled.labels, at),) for i, (probs, at) in pairs))
    )


def _item(index: int, probs: NDArray[np.float32], labels: list[str], best: int) -> bytes:
    label = labels[best] if best < len(labels) else None
    item = {"index": index, "label": label, "probs": probs.tolist(), "num_classes": len(probs)}
    return msgspec.json.encode(item)


def encode_spans(context: ReplyContext, found: FoundEntities) -> EncodedReply:
    """A list reply with an item for each text, whose `data` are its entities."""
    items = (
        (b'{"index":%d,"object":"pooling","data":' % index, msgspec.json.encode(spans), b"}")
        for index, spans in enumerate(found.values)
    )
    return EncodedReply(encode_list_reply(context, items))


def encode_entity_list(found: FoundEntities) -> EncodedReply:
    """The `EntityList` of a request with one text."""
    return EncodedReply(msgspec.json.encode({"entities": found.values[0]}))
