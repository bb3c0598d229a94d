"""Classes of texts → a reply.  Knows arrays; knows nothing of requests or HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pipelines.values import Classes, Scores
from server.pooling.replies.schema import Head, Written

ONLY_LABEL = "LABEL_0"
"""What the one class of a model that scores is called."""


def classified(head: Head, found: Classes | Scores) -> Written:
    """The likeliest class of each text, and the numbers of all; a score is the number of the only class."""
    if isinstance(found, Scores):
        found = Classes(found.values[:, None], [ONLY_LABEL])
    best = np.argmax(found.values, axis=1).tolist()
    pairs = zip(found.values.tolist(), best, strict=True)
    data = [_row(i, probs, found.labels, at) for i, (probs, at) in enumerate(pairs)]
    return Written(msgspec.json.encode(head.listed(data)))


def _row(index: int, probs: list[float], labels: list[str], best: int) -> dict[str, Any]:
    label = labels[best] if best < len(labels) else None
    return {"index": index, "label": label, "probs": probs, "num_classes": len(probs)}
