"""Each text of a batch has the vectors that PEFT gives for it alone with its adapter, or with none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import openvino as ov
import pytest
from encoder_models import write_encoder_model
from openvino import opset13 as ops
from recorded_encoder_adapters import FOLDER, LONGEST, ORDER, recorded_rows
from tiny_batches import batch_of

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.backends.openvino.model.lora_linears import add_lora
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_contract import EncoderSettings

ALL: frozenset[str] = frozenset()
NUMBERS = {None: 0, "a": 1, "b": 2}
WAYS = {
    "openvino_model.xml": EncoderSettings(precision="f32"),
    "model.onnx": EncoderSettings(precision="f32"),
    "model.onnx by onnxruntime": EncoderSettings(engine="onnxruntime"),
}


@pytest.fixture(params=WAYS)
def opened(request, encoders):
    """`opened(family)` → an encoder that holds both adapters."""

    def opened(family):
        folders = adapter_folders(FOLDER / family)
        settings = replace(WAYS[request.param], targets=adapter_targets(folders))
        encoder = open_encoder(encoders(family) / request.param.partition(" ")[0], settings)
        for folder in folders:
            weights = read_adapter(folder, encoder.linears, max_rank=8)
            encoder.put_adapter(NUMBERS[folder.name], weights)
        return encoder

    return opened


def rows(encoder, texts, names):
    """Of each text, with its adapter."""
    numbers = np.array([NUMBERS[name] for name in names], np.int32)
    batch = replace(batch_of(texts), adapters=numbers if numbers.any() else numbers[:0])
    values = encoder.run(batch).copy()
    return [row[: len(text)] if encoder.per_token else row for text, row in zip(texts, values, strict=True)]


@pytest.mark.parametrize("family", ["bert", pytest.param("qwen3-scorer", marks=pytest.mark.breadth)])
def test_a_mixed_batch_has_pefts_vectors(opened, family):
    from tiny_encoders import texts

    encoder, asked, wanted = opened(family), texts(len(ORDER), LONGEST), recorded_rows(family)
    for own, expected in zip(rows(encoder, asked, ORDER), wanted, strict=True):
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-5)
    base = rows(encoder, asked, [None] * len(ORDER))
    for name, own, expected in zip(ORDER, base, wanted, strict=True):
        assert (np.abs(own - expected).max() < 1e-5) == (name is None)
    encoder.drop_adapter(NUMBERS["a"])  # of which the last stack was
    for place, name in enumerate(ORDER):
        if name != "a":
            [own] = rows(encoder, [asked[place]], [name])
            np.testing.assert_allclose(own, wanted[place], rtol=0, atol=1e-5)
    encoder.close()


@pytest.mark.parametrize("way", WAYS)
def test_an_encoder_without_named_products_is_refused(tmp_path, way):
    settings = replace(WAYS[way], targets=ALL)
    with pytest.raises(ModelError, match="none of its linear layers is named as the `targets`"):
        open_encoder(write_encoder_model(tmp_path, way.partition(" ")[0]), settings)


def test_activations_in_int8_are_refused():
    rows = ops.parameter([-1, -1, 8], np.float32)
    bounds = [ops.constant(np.float32(each)) for each in (-1, 1, -1, 1)]
    rounded, weight = ops.fake_quantize(rows, *bounds, 256), ops.constant(np.ones((8, 12), np.float32))
    linear = ops.matmul(rounded, weight, False, False, name="layers.0.attn.Wqkv/linear/MatMul")
    with pytest.raises(ModelError, match=r"layers.0.attn.Wqkv reads activations in int8"):
        add_lora(ov.Model([linear], [rows]), ALL, by_text=True)
