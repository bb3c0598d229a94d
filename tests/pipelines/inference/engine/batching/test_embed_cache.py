"""An image that was encoded is not encoded again while its rows are there; others never get its rows."""

import queue

import numpy as np
import pytest
from fake_encoder import HostArrays
from patience import PATIENCE_S

from pipelines.base.errors import RequestError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.inference.engine.batching.batch_engine import BatchBody, BatchEngine, BatchSettings
from pipelines.inference.engine.batching.embed_cache import EmbedCache
from pipelines.inference.engine.batching.text_checks import Bounds
from pipelines.inference.engine.interface.engine_contract import TensorRequest

ROWS, SHAPE = 3, (3, 2, 2)
IMAGE_BYTES = ROWS * 4 * 4


def rows_of(features):
    """float32[images, ROWS, 4]: its colours, flat."""
    return features.reshape(len(features), ROWS, 4)


class Body:
    """Encodes a batch of images; `seen` are all that it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, batch):
        self.seen += [float(each.ravel()[0]) for each in batch.features]
        return {0: Encoded(rows_of(batch.features), batch, HostArrays())}

    def close(self):
        pass


@pytest.fixture
def make_engine():
    engines = []

    def make(max_bytes):
        bounds = Bounds(ROWS, 1, 4, SHAPE)
        engines.append(
            BatchEngine(
                BatchBody(Body()),
                bounds,
                BatchSettings(2 * ROWS),
                results=[RowShape(True, 4)],
                cache=EmbedCache(max_bytes),
            )
        )
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def image(number):
    return np.arange(12, dtype=np.float32).reshape(SHAPE) + 100 * number


def ask(engine, *numbers):
    """What the engine gives for images that are named by their numbers."""
    results = queue.SimpleQueue()
    features = np.stack([image(number) for number in numbers])
    names = np.array([[number] * 16 for number in numbers], np.uint8)
    inputs = {"features": features, "names": names}
    engine.submit("key", TensorRequest(inputs, None, lambda key, result: results.put(result)))
    answer = results.get(timeout=PATIENCE_S)
    np.testing.assert_array_equal(answer["embeddings"], rows_of(features).reshape(-1, 4))
    assert answer["lengths"].tolist() == [ROWS] * len(numbers)
    return [int(token // 100) for token in engine._body.seen]


def counted(engine):
    counts = engine.counts()
    return counts.image_queries, counts.image_hits


def test_images_are_encoded_once_and_each_gets_its_own_rows(make_engine):
    engine = make_engine(10 * IMAGE_BYTES)
    assert ask(engine, 1) == [1]
    assert ask(engine, 1) == [1]
    assert ask(engine, 2, 1, 3) == [1, 2, 3]
    assert ask(engine, 3, 2, 1, 1) == [1, 2, 3]
    assert counted(engine) == (9, 6)


def test_the_bound_holds_and_what_was_used_least_recently_leaves(make_engine):
    engine = make_engine(2 * IMAGE_BYTES + 1)
    assert ask(engine, 1, 2) == [1, 2]
    assert ask(engine, 1) == [1, 2]
    assert ask(engine, 3) == [1, 2, 3]  # 2 leaves
    assert ask(engine, 1, 3) == [1, 2, 3]
    assert ask(engine, 2)[-1] == 2
    assert engine._cache.num_bytes == 2 * IMAGE_BYTES
    assert len(engine._cache._rows) == 2


def test_nothing_is_stored_beyond_the_bound_or_without_names(make_engine):
    engine = make_engine(IMAGE_BYTES - 1)
    assert ask(engine, 1) == [1]
    assert ask(engine, 1) == [1, 1]
    assert counted(engine) == (2, 0)
    results = queue.SimpleQueue()
    wanted = {"features": image(1)[None]}
    engine.submit("key", TensorRequest(wanted, None, lambda key, result: results.put(result)))
    assert results.get(timeout=PATIENCE_S)["lengths"].tolist() == [ROWS]
    assert counted(engine) == (2, 0)


def test_stored_rows_are_copies_of_their_own(make_engine):
    engine = make_engine(10 * IMAGE_BYTES)
    ask(engine, 1, 2)
    assert all(rows.base is None and rows.nbytes == IMAGE_BYTES for rows in engine._cache._rows.values())


def test_each_image_has_one_name(make_engine):
    inputs = {"features": image(1)[None], "names": np.zeros((2, 16), np.uint8)}
    with pytest.raises(RequestError, match="each image has one name"):
        make_engine(1000).submit("key", TensorRequest(inputs, None, print))
