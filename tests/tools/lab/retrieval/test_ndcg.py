"""nDCG of a ranking, beside scikit-learn's."""

import random

import pytest

from tools.lab.retrieval.ndcg import ndcg


def test_values_by_hand():
    assert ndcg(["a", "b"], {"a": 1}) == 1
    assert ndcg(["b", "a"], {"a": 1}) == pytest.approx(0.6309298)  # 1 / log2(3)
    assert ndcg(["b", "c"], {"a": 1}) == 0
    assert ndcg([], {}) == 0
    assert ndcg(["b", "a"], {"a": 3, "b": 1}) == pytest.approx((1 + 3 * 0.6309298) / (3 + 0.6309298))
    assert ndcg([*"bcdefghijk", "a"], {"a": 1}) == 0  # the eleventh


def test_it_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    draw = random.Random(0)
    for _ in range(30):
        names = [str(number) for number in range(draw.randint(11, 40))]
        relevance = {name: draw.choice([0, 0, 1, 2]) for name in names}
        scores = {name: draw.random() for name in names}
        ranking = sorted(names, key=lambda name: -scores[name])
        gains, order = [[relevance[name] for name in names]], [[scores[name] for name in names]]
        assert ndcg(ranking, relevance) == pytest.approx(metrics.ndcg_score(gains, order, k=10))
