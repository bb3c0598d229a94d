"""Exported encoders give what transformers gives: alone, beside others, and with more padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from breadth import after
from encoder_models import write_encoder_model
from tiny_batches import batch_of

from pipelines.inference.backends.encoder_io import blank_batch
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.encoder_contract import EncoderSettings

CLOSE = {"rtol": 0, "atol": 1e-4}
LONGEST = 40
OPENVINO, ONNX = EncoderSettings(precision="f32"), EncoderSettings(engine="onnxruntime")
WAYS = [("openvino_model.xml", OPENVINO), ("model.onnx", OPENVINO), ("model.onnx", ONNX)]
FAMILIES = ["bert", "roberta", "qwen3-scorer"]


def run(encoder, texts, width=None):
    """A copy of each text's rows, or row."""
    values = encoder.run(batch_of(texts, width)).copy()
    return [row[: len(text)] if encoder.per_token else row for text, row in zip(texts, values, strict=True)]


@pytest.mark.parametrize(("name", "settings"), WAYS, ids=lambda way: getattr(way, "engine", way))
@pytest.mark.parametrize("family", after(2, FAMILIES))
def test_rows_are_transformers_own_alone_and_beside_others(encoders, family, name, settings):
    from tiny_encoders import make_model, rows_alone, texts

    encoder = open_encoder(encoders(family) / name, settings)
    asked, model = texts(7, LONGEST), make_model(family)
    assert encoder.per_token == (family != "qwen3-scorer")
    for text, together, wider in zip(asked, run(encoder, asked), run(encoder, asked, 47), strict=True):
        expected = rows_alone(model, text)
        np.testing.assert_allclose(together, expected, **CLOSE)
        np.testing.assert_allclose(wider, expected, **CLOSE)
        np.testing.assert_allclose(run(encoder, [text])[0], expected, **CLOSE)


@pytest.mark.parametrize(("name", "settings"), WAYS, ids=lambda one: getattr(one, "engine", one))
def test_the_longest_text_is_as_long_as_positions_reach(encoders, name, settings):
    from tiny_encoders import make_model, rows_alone, texts

    encoder = open_encoder(encoders("roberta") / name, settings)
    assert encoder.max_tokens == 64
    asked = texts(2, 64)
    np.testing.assert_allclose(run(encoder, asked)[0], rows_alone(make_model("roberta"), asked[0]), **CLOSE)


def test_types_reach_the_model(encoders):
    from dataclasses import replace

    from tiny_encoders import texts

    encoder = open_encoder(encoders("bert") / "openvino_model.xml", OPENVINO)
    batch = batch_of(texts(1, 8))
    typed = encoder.run(batch).copy()
    assert np.abs(encoder.run(replace(batch, types=np.zeros_like(batch.types))) - typed).max() > 0.1


@pytest.mark.parametrize(("name", "settings"), WAYS, ids=lambda way: getattr(way, "engine", way))
def test_warming_ends_changes_nothing_and_a_closed_encoder_may_be_closed(tmp_path: Path, name, settings):
    encoder = open_encoder(write_encoder_model(tmp_path, name), settings)
    before = encoder.run(batch_of([[1, 2], [3]])).copy()
    for _ in range(100):
        if not encoder.warm():
            break
    else:
        raise AssertionError("it goes on and on")
    np.testing.assert_array_equal(encoder.run(batch_of([[1, 2], [3]])), before)
    encoder.close()
    encoder.close()
    assert not encoder.warm()
    assert encoder.max_tokens == 24


def test_blank_texts_are_as_wide_as_asked():
    batch = blank_batch(3, 5)
    assert batch.ids.shape == batch.types.shape == (3, 5)
    assert batch.lengths.tolist() == [5, 5, 5]
