"""Images that are grids of tokens, of several shapes in one batch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.base.errors import RequestError
from pipelines.host.first_run.run_once import _text
from pipelines.inference.engine.batching.batch_assembly import assemble, scatter
from pipelines.inference.engine.batching.batched_request import BatchPart, texts_of
from pipelines.inference.engine.batching.text_checks import Bounds, checked_texts

BOUNDS = Bounds(max_tokens=6, vocab_size=1, output_size=2, columns=(3,))


def request(*grids):
    count = sum(rows * columns for rows, columns in grids)
    features = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    return {"features": features, "grids": np.array(grids, np.int32).reshape(-1, 2)}


def test_each_image_has_its_own_features_and_its_own_rows_of_the_result():
    texts = texts_of("key", checked_texts(request((1, 2), (2, 3), (1, 2)), BOUNDS), None, 0.0)
    parts = [BatchPart(texts, length, start, end) for length, start, end in texts.runs()]
    batch = assemble(parts)
    assert batch.grids.tolist() == [[2, 3], [1, 2], [1, 2]]
    assert batch.features[:, 0].tolist() == [6, 9, 12, 15, 18, 21, 0, 3, 24, 27]
    values = np.zeros((*batch.ids.shape, 2), np.float32)
    values[batch.mask.astype(bool)] = batch.features[:, :2]
    scatter(values, parts)
    assert texts.outputs[0].tolist() == texts.features[:, :2].tolist()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (request(), "the grids of the images"),
        (request((1, 7)), "an image has 7 tokens, and the encoder reads at most 6"),
        ({**request((1, 2)), "grids": np.array([[1, 3]], np.int32)}, "the grids of the images"),
        ({**request((1, 2)), "grids": np.array([[-1, -2]], np.int32)}, "the grids of the images"),
        ({"features": np.zeros((2, 3), np.float32)}, "and their grids"),
        ({**request((1, 2)), "names": np.zeros((2, 16), np.uint8)}, "each image has one name"),
        ({**request((1, 2)), "features": np.zeros((2, 4), np.float32)}, r"shape \[tokens, 3\]"),
        ({**request((1, 2)), "features": np.full((2, 3), np.nan, np.float32)}, "finite"),
    ],
)
def test_other_grids_than_the_features_have_are_refused(inputs, words):
    with pytest.raises(RequestError, match=words):
        checked_texts(inputs, BOUNDS)


def test_the_first_run_of_a_model_reads_an_image_of_one_token():
    assert checked_texts(_text(SimpleNamespace(bounds=BOUNDS)), BOUNDS)["lengths"].tolist() == [1]
