"""Which engine opens which encoder, which output counts, and what is refused."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from encoder_models import BOTH, write_encoder_model
from openvino import opset6 as ops
from small_encoders import write_encoder
from stub_openers import use_openers
from tiny_batches import batch_of

from pipelines.inference.backends.encoder_io import choose_output
from pipelines.inference.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.device_errors import ModelError, Unsupported
from pipelines.inference.contracts.encoder_contract import EncoderSettings

WAYS = [("openvino_model.xml", None), ("model.onnx", None), ("model.onnx", "onnxruntime")]
TEXTS = [[3, 4, 5], [6], [7, 8]]


@pytest.mark.parametrize(("name", "engine"), WAYS)
def test_rows_of_tokens_are_taken_where_there_are_rows_of_texts_too(tmp_path, name, engine):
    encoder = open_encoder(
        write_encoder_model(tmp_path, name), EncoderSettings(engine=engine, precision=f32(engine))
    )
    assert (encoder.per_token, encoder.size, encoder.max_tokens, encoder.vocab_size) == (True, 2, 24, 50)
    rows = encoder.run(batch_of(TEXTS))
    assert rows.shape == (3, 3, 2)
    assert rows.dtype == np.float32
    for text, row in zip(TEXTS, rows, strict=True):
        np.testing.assert_array_equal(row[: len(text)], [[id, id * id] for id in text])


@pytest.mark.parametrize(("name", "engine"), WAYS)
def test_a_model_of_rows_of_texts_gives_them(tmp_path, name, engine):
    text = BOTH.replace(", float[n, w, 2] token_embeddings)", ")")
    encoder = open_encoder(write_encoder_model(tmp_path, name, text), EncoderSettings(engine=engine))
    assert (encoder.per_token, encoder.size) == (False, 2)
    np.testing.assert_array_equal(encoder.run(batch_of(TEXTS)), [[3, 9], [6, 36], [7, 49]])


@pytest.mark.parametrize(("name", "engine"), WAYS)
def test_ids_may_be_of_32_bits_and_the_mask_left_out(tmp_path, name, engine):
    text = BOTH.replace("int64[n, w] input_ids, int64[n, w] attention_mask", "int32[n, w] input_ids")
    text = text.replace("Mul (input_ids, attention_mask)", "Identity (input_ids)")
    encoder = open_encoder(write_encoder_model(tmp_path, name, text), EncoderSettings(engine=engine))
    np.testing.assert_array_equal(encoder.run(batch_of(TEXTS))[:, 0], [[3, 9], [6, 36], [7, 49]])


@pytest.mark.parametrize(("name", "engine"), WAYS)
@pytest.mark.parametrize("texts", [[[3, 4, 5]], TEXTS])
def test_positions_count_from_0(tmp_path, name, engine, texts):
    path = write_encoder_model(tmp_path, name, BOTH.replace("attention_mask", "position_ids"))
    rows = open_encoder(path, EncoderSettings(engine=engine)).run(batch_of(texts))
    assert rows[0, :, 0].tolist() == [0, 4, 10]


@pytest.mark.parametrize(("name", "engine"), WAYS)
def test_padding_is_what_the_model_looks_for(tmp_path, name, engine):
    text = BOTH.replace("Mul (input_ids, attention_mask)", "Add (input_ids, attention_mask)")
    path = write_encoder_model(tmp_path, name, text, pad_token_id=9)
    rows = open_encoder(path, EncoderSettings(engine=engine)).run(batch_of(TEXTS))
    assert rows[1, :, 0].tolist() == [7, 9, 9]


@pytest.mark.parametrize(("name", "engine"), WAYS)
@pytest.mark.parametrize(
    ("had", "instead", "complaint"),
    [
        ("attention_mask", "past_key_values_0", "with a cache.*--task embed"),
        ("attention_mask", "pixel_values", "pixel_values beside input_ids"),
        ("attention_mask", "bbox", "an encoder does not have: bbox"),
        ("input_ids", "inputs_embeds", "does not have: inputs_embeds"),
        ("int64[n, w] attention_mask", "int16[n, w] attention_mask", "of type .*int|of type i16"),
    ],
)
def test_what_is_no_encoder_is_refused(tmp_path, name, engine, had, instead, complaint):
    text = BOTH.replace(had, instead)
    if "int16" in instead:
        text = text.replace("masked =", "wide = Cast <to = 7> (attention_mask)\n masked =")
        text = text.replace("Mul (input_ids, attention_mask)", "Mul (input_ids, wide)")
    with pytest.raises(ModelError, match=complaint):
        open_encoder(write_encoder_model(tmp_path, name, text), EncoderSettings(engine=engine))


def test_a_decoder_that_keeps_its_cache_in_a_state_is_refused(tmp_path):
    ids = ops.parameter([-1, -1], np.int64, "input_ids")
    ids.output(0).set_names({"input_ids"})
    state = ops.read_value(ids, "past")
    model = ov.Model([ops.result(state)], [ops.assign(ops.add(state, ids), "past")], [ids])
    path = write_encoder_model(tmp_path, "openvino_model.xml")
    ov.save_model(model, path)
    with pytest.raises(ModelError, match="with a cache.*--task embed"):
        open_encoder(path, EncoderSettings())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["last_hidden_state", "pooler_output"], 0),
        (["pooler_output", "last_hidden_state"], 1),
        (["sentence_embedding", "token_embeddings"], 1),
        (["hidden_states.0", "logits"], 1),
        (["embeddings", "other"], 0),
    ],
)
def test_the_output_that_counts(names, expected):
    assert choose_output([{name, "some.other"} for name in names]) == expected


def test_a_file_no_engine_opens_is_refused(tmp_path):
    onnx, ir = write_encoder_model(tmp_path), write_encoder_model(tmp_path, "openvino_model.xml")
    (tmp_path / "model.gguf").touch()
    for path, settings, complaint in (
        (tmp_path / "model.gguf", EncoderSettings(), r"opened from \.xml, \.onnx"),
        (tmp_path / "gone.onnx", EncoderSettings(), "does not exist"),
        (ir, EncoderSettings(engine="onnxruntime"), "onnxruntime runs model.onnx"),
        (
            ir,
            EncoderSettings("cuda:0"),
            "NVIDIA GPUs run model.onnx.*Vision models run on cpu alone",
        ),
        (onnx, EncoderSettings("cuda:0", "openvino"), "remove `engine: openvino`"),
        (onnx, EncoderSettings("gpu"), "device gpu is not available"),
        (onnx, EncoderSettings(engine="onnxruntime", precision="bf16"), "has no precision"),
    ):
        with pytest.raises(ModelError, match=complaint):
            open_encoder(path, settings)


def test_the_next_engine_is_asked_where_the_first_cannot(tmp_path, monkeypatch):
    path = write_encoder_model(tmp_path)

    def refuse(path, settings):
        raise Unsupported("an operator is missing")

    use_openers(monkeypatch, "ENCODERS", ".onnx", openvino=refuse, onnxruntime=OnnxCpuEncoder)
    assert "onnxruntime" in open_encoder(path, EncoderSettings()).describe()["engine"]
    use_openers(monkeypatch, "ENCODERS", ".onnx", openvino=refuse, onnxruntime=refuse)
    with pytest.raises(ModelError, match="an operator is missing; an operator is missing"):
        open_encoder(path, EncoderSettings())


def f32(engine):
    return None if engine == "onnxruntime" else "f32"


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
@pytest.mark.parametrize("per_token", [True, False])
def test_values_of_sixteen_bits_are_given_as_floats(tmp_path, element_type, per_token):
    (tmp_path / "wide").mkdir()
    wanted = open_encoder(write_encoder(tmp_path / "wide", per_token=per_token), EncoderSettings())
    given = open_encoder(
        write_encoder(tmp_path, per_token=per_token, element_type=element_type), EncoderSettings()
    )
    found, expected = given.run(batch_of(TEXTS)), wanted.run(batch_of(TEXTS))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("element_type", "engine", "complaint"),
    [
        ("bf16", "onnxruntime", r"type tensor\(bfloat16\); here tensor\(float\), tensor\(float16\)"),
        ("i64", "onnxruntime", r"last_hidden_state is of type tensor\(int64\); here"),
        ("i64", "openvino", "its output is of type i64, no floats"),
    ],
)
def test_values_that_cannot_be_read_are_refused(tmp_path, element_type, engine, complaint):
    path = write_encoder(tmp_path, element_type=element_type)
    with pytest.raises(ModelError, match=complaint):
        open_encoder(path, EncoderSettings(engine=engine))
