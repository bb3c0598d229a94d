"""Texts with adapters in the batch engine: one batch has several, and what is held changes between batches."""

from __future__ import annotations

import numpy as np
import pytest
from batch_rig import LONG_S, Rig
from fake_encoder import FAKE_PRODUCT, adapted, row_of

from pipelines.adapters.weights import AdapterWeights, LoraFactors
from pipelines.base.errors import EngineError


@pytest.fixture
def rig():
    made = Rig(held=True)
    yield made
    made.close()


def weights(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 8)).astype(np.float32), rng.standard_normal((8, 2)).astype(np.float32)
    return AdapterWeights(2, {FAKE_PRODUCT: LoraFactors(a, b)})


def rows(texts, adapter=None):
    more = adapted(adapter) if adapter else 0
    return np.array([row_of(text) for text in texts]) + more


def test_texts_of_several_adapters_and_of_none_are_one_batch(rig):
    first_weights, two = weights(1), weights(2)
    rig.put("first", [[9]])
    rig.body.began.get(timeout=LONG_S)
    rig.engine.put_adapter(1, first_weights)
    rig.engine.put_adapter(2, two)
    assert not rig.encoder.adapters  # a batch is running
    rig.put("base", [[1, 2], [3]])
    rig.put("one", [[1, 2], [4, 5]], adapter=1)
    rig.put("two", [[1, 2]], adapter=2)
    rig.body.turns.release(9)
    told = dict(rig.answer() for _ in range(4))
    assert [len(batch.adapters) for batch in rig.encoder.batches] == [0, 5]
    assert set(rig.encoder.batches[1].adapters.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(told["base"]["embeddings"], rows([[1, 2], [3]]))
    np.testing.assert_array_equal(told["one"]["embeddings"], rows([[1, 2], [4, 5]], first_weights))
    np.testing.assert_array_equal(told["two"]["embeddings"], rows([[1, 2]], two))


def test_weights_leave_after_the_batch_that_runs_with_them(rig):
    own = weights(1)
    rig.engine.put_adapter(1, own)
    rig.put("one", [[1, 2]], adapter=1)
    rig.body.began.get(timeout=LONG_S)
    rig.engine.cancel("one")
    rig.engine.drop_adapter(1)
    with pytest.raises(EngineError, match="adapter 1 is not loaded"):
        rig.put("late", [[1]], adapter=1)
    assert 1 in rig.encoder.adapters
    rig.put("base", [[1, 2]])
    rig.body.turns.release(9)
    key, told = rig.answer()
    assert (key, rig.engine.counts().failed_steps) == ("base", 0)
    np.testing.assert_array_equal(told["embeddings"], rows([[1, 2]]))
    assert not rig.encoder.adapters


def test_a_request_that_fails_leaves_the_others_their_adapter(rig):
    own = weights(1)
    rig.engine.put_adapter(1, own)
    rig.encoder.poison = 7
    rig.put("first", [[9]])
    rig.body.began.get(timeout=LONG_S)
    rig.put("bad", [[7, 2]], adapter=1)
    rig.put("good", [[1, 2]], adapter=1)
    rig.put("base", [[1, 2]])
    rig.body.turns.release(99)
    told = dict(rig.answer() for _ in range(4))
    assert isinstance(told["bad"], EngineError)
    np.testing.assert_array_equal(told["good"]["embeddings"], rows([[1, 2]], own))
    np.testing.assert_array_equal(told["base"]["embeddings"], rows([[1, 2]]))
