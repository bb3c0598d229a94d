"""Classes of texts → a reply.  Knows arrays; knows nothing of requests or HTTP."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.values import Classes, Scores
from server.pooling.replies.schema import ReplyContext, Written, joined

ONLY_LABEL = "LABEL_0"
"""What the one class of a model that scores is called."""


def classified(head: ReplyContext, found: Classes | Scores) -> Written:
    """The likeliest class of each text, and the numbers of all; a score is the number of the only class."""
    if isinstance(found, Scores):
        found = Classes(found.values[:, None], [ONLY_LABEL])
    best = np.argmax(found.values, axis=1).tolist()
    pairs = enumerate(zip(found.values, best, strict=True))
    return Written(joined(head, ((_row(i, probs, found.labels, at),) for i, (probs, at) in pairs)))


def _row(index: int, probs: NDArray[np.float32], labels: list[str], best: int) -> bytes:
    label = labels[best] if best < len(labels) else None
    row = {"index": index, "label": label, "probs": probs.tolist(), "num_classes": len(probs)}
    return msgspec.json.encode(row)
