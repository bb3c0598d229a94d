"""Encoders of sound that were written from weights: their frames are those of transformers."""

import json

import numpy as np
import onnx
import pytest
from onnx import parser
from tiny_whisper import FRAMES, MELS, frames_of, make_whisper, weights_of

from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from tools.export.whisper.encoder import write_encoder

WAYS = [EncoderSettings(precision="f32"), EncoderSettings(engine="onnxruntime")]
COLUMNS = (MELS, 2 * FRAMES)


def features(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *COLUMNS)).astype(np.float32)


def batch(values):
    nothing = np.zeros((len(values), FRAMES), np.int64)
    lengths = np.full(len(values), FRAMES)
    return TokenBatch(nothing, lengths, nothing, np.ones(len(values), np.bool_), values)


@pytest.fixture(scope="module")
def model():
    return make_whisper()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    write_encoder(weights_of(model), model.config.to_dict(), folder)
    return folder


@pytest.mark.parametrize("settings", WAYS, ids=["openvino", "onnxruntime"])
def test_frames_are_those_of_transformers(model, folder, settings):
    encoder = open_encoder(folder / "encoder.onnx", settings)
    assert (encoder.columns, encoder.max_tokens, encoder.size) == (COLUMNS, FRAMES, 32)
    assert encoder.per_token
    for count in (1, 3):
        given = features(count, seed=count)
        np.testing.assert_allclose(encoder.run(batch(given)), frames_of(model, given), atol=1e-4)
    encoder.close()


@pytest.mark.parametrize("settings", WAYS, ids=["openvino", "onnxruntime"])
def test_an_encoder_of_sound_has_nothing_to_warm(folder, settings):
    assert not open_encoder(folder / "encoder.onnx", settings).warm()


@pytest.mark.parametrize("name", ["model.encoder.conv1.weight", "model.encoder.layers.1.fc2.weight"])
def test_weights_of_another_shape_are_refused(model, tmp_path, name):
    weights = weights_of(model)
    weights[name] = weights[name][:-1]
    with pytest.raises(ValueError, match=name):
        write_encoder(weights, model.config.to_dict(), tmp_path)


IDENTITY = '<ir_version: 10, opset_import: ["": 20]> g (float[{shape}] {name}{more}) => (float[{shape}] y) {{ y = Identity({name}) }}'


@pytest.mark.parametrize(
    ("shape", "more", "problem"),
    [("n, m, 8", "", r"windows, size, columns"), ("n, 4, 8", ", int64[n] input_ids", "beside input_ids")],
)
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_other_models_of_features_are_refused(tmp_path, shape, more, problem, engine):
    text = IDENTITY.format(shape=shape, name="input_features", more=more)
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 8, "vocab_size": 9}))
    with pytest.raises(ModelError, match=problem):
        open_encoder(tmp_path / "model.onnx", EncoderSettings(engine=engine))
