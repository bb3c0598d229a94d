"""The best part's score is the pair's."""

import numpy as np
import pytest

from pipelines.base.errors import EngineError
from pipelines.nodes.pooling.rank import Rank
from pipelines.values.node_values import PooledOutputs, Tokens
from pipelines.values.stream_values import Deferred


def ranked(rows, of):
    later = Rank(Rank.Config(), None).run(None, Deferred("engine"), [Tokens([1], of=each) for each in of])
    (make,) = later.makers
    return make(rows).values


def test_each_pair_has_the_score_of_its_best_part():
    rows = PooledOutputs(np.array([[0.1], [0.9], [0.4], [-3.0], [-2.0]], np.float32))
    scores = ranked(rows, [0, 0, 1, 2, 2])
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.array([0.9, 0.4, -2.0], np.float32))


@pytest.mark.parametrize(
    "rows", [PooledOutputs(np.zeros((2, 3), np.float32)), PooledOutputs([np.zeros((4, 1), np.float32)])]
)
def test_rows_that_are_no_scores_are_told(rows):
    with pytest.raises(EngineError, match="one number for each text"):
        ranked(rows, [0, 1])
