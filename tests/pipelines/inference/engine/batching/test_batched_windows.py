"""Windows of sound in the engine of encoders: each request gets its own frames, in order."""

import queue

import numpy as np
import pytest
from fake_encoder import HostArrays
from patience import PATIENCE_S

from pipelines.base.errors import RequestError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.inference.engine.batching.batch_engine import BatchBody, BatchEngine, BatchSettings
from pipelines.inference.engine.batching.text_checks import Bounds
from pipelines.inference.engine.interface.engine_contract import TensorRequest

FRAMES, COLUMNS = 3, (2, 6)


def frames_of(features):
    """float32[windows, FRAMES, 4]: pairs of columns, side by side."""
    return features.transpose(0, 2, 1).reshape(len(features), FRAMES, 4)


class Body:
    """Encodes a batch of windows; `sizes` are those of its calls."""

    def __init__(self):
        self.sizes = []

    def __call__(self, batch):
        self.sizes.append(len(batch.features))
        assert batch.ids.shape == (len(batch.features), FRAMES)
        return {0: Encoded(frames_of(batch.features), batch, HostArrays())}

    def close(self):
        pass


@pytest.fixture
def engine():
    body = Body()
    bounds = Bounds(FRAMES, 1, 4, COLUMNS)
    made = BatchEngine(BatchBody(body), bounds, BatchSettings(2 * FRAMES), results=[RowShape(True, 4)])
    yield made
    made.close()


def answers(engine, *inputs):
    results = queue.SimpleQueue()
    for key, each in enumerate(inputs):
        engine.submit(key, TensorRequest(each, None, lambda key, result: results.put((key, result))))
    return dict(results.get(timeout=PATIENCE_S) for _ in inputs)


def test_each_request_gets_its_frames(engine):
    random = np.random.default_rng(0)
    given = [random.standard_normal((count, *COLUMNS)).astype(np.float32) for count in (1, 5, 2)]
    for key, answer in answers(engine, *({"features": each} for each in given)).items():
        np.testing.assert_array_equal(answer["embeddings"], frames_of(given[key]).reshape(-1, 4))
        assert answer["lengths"].tolist() == [FRAMES] * len(given[key])


NAN = np.full((1, *COLUMNS), np.nan, np.float32)
WRONG = {
    "no_windows": ({"features": np.zeros((0, *COLUMNS), np.float32)}, "features of shape"),
    "another_shape": ({"features": np.zeros((1, 2, 5), np.float32)}, r"not features of shape \[1, 2, 5\]"),
    "doubles": ({"features": np.zeros((1, *COLUMNS))}, "finite numbers of float32"),
    "not_finite": ({"features": NAN}, "finite numbers of float32"),
    "ids": ({"ids": np.ones(2, np.int32), "lengths": np.full(1, 2, np.int32)}, "not token ids"),
}


@pytest.mark.parametrize(("inputs", "problem"), WRONG.values(), ids=WRONG)
def test_other_inputs_are_refused(engine, inputs, problem):
    with pytest.raises(RequestError, match=problem):
        answers(engine, inputs)


def test_an_encoder_of_texts_refuses_features():
    engine = BatchEngine(BatchBody(Body()), Bounds(8, 10), BatchSettings())
    with pytest.raises(RequestError, match="reads token ids, not features"):
        answers(engine, {"features": np.zeros((1, *COLUMNS), np.float32)})
    engine.close()
