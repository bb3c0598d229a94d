"""How well a ranking fits what is relevant: nDCG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ndcg(ranking: Sequence[str], relevance: Mapping[str, float], top: int = 10) -> float:
    """The normalized discounted cumulative gain of the first `top` of a ranking, from 0 to 1.

    `relevance` has the gain of each item, 0 for those that are left out; a ranking that finds none has 0.
    Gains are linear, as in trec_eval and in scikit-learn's ndcg_score (Järvelin and Kekäläinen, 2002).
    """
    best = _gain(sorted(relevance.values(), reverse=True)[:top])
    return _gain([relevance.get(item, 0.0) for item in ranking[:top]]) / best if best else 0.0


def _gain(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
