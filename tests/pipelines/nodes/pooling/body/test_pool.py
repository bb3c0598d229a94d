"""The lines of a batcher's body: what each gives, and what is refused when the graph is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from encoder_models import BOTH, write_encoder_model
from safetensors.numpy import save_file

from graphs.graph import Binding, Source
from ops.pooling import POOLINGS
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.loading.load import Resources
from pipelines.nodes import VOCABULARY
from pipelines.nodes.pooling.body.dense import read_weights
from pipelines.nodes.pooling.body.pool import Pool
from pipelines.nodes.pooling.body.pooled_shape import RowShape
from pipelines.wire.address import EngineAddress

ENCODER = {"type": "encoder", "from": "batch", "path": "model.onnx", "precision": "f32"}
POOL = {"type": "pool", "from": "hidden", "how": "mean"}
TEXT_ROWS = BOTH.replace(", float[n, w, 2] token_embeddings)", ")")
TEXTS = [[1, 2, 3], [4], [5, 6]]


def loaded(folder: Path, **lines: dict) -> dict:
    """Live nodes by name, loaded in order as a host loads them."""
    nodes: dict = {}
    for name, line in lines.items():
        settings = {key: value for key, value in line.items() if key not in ("type", "from")}
        cls = VOCABULARY[line["type"]]
        node = cls(cls.Config.model_validate(settings, context={"folder": folder}), folder)
        binding = Binding(name, line["type"], cls, node.config, {"value": Source(line["from"])}, None, 1)
        node.load(Resources(EngineAddress("m", 0, name), binding=binding, above=dict(nodes)))
        nodes[name] = node
    return nodes


def run(nodes: dict, activate: list[bool] | None = None) -> np.ndarray:
    """What the last of a chain of lines gives for TEXTS."""
    ids = np.zeros((3, 4), np.int64)
    for text, row in zip(TEXTS, ids, strict=True):
        row[: len(text)] = text
    lengths = np.array([len(text) for text in TEXTS])
    value = TokenBatch(ids, lengths, np.zeros_like(ids), np.array(activate or [True] * 3))
    for node in nodes.values():
        value = node.run(value)
    return value.ops.fetch(value.values)


def write_dense(folder: Path, weight: np.ndarray, bias: np.ndarray | None, activation: str) -> None:
    folder.mkdir()
    config = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": bias is not None}
    (folder / "config.json").write_text(json.dumps({**config, "activation_function": activation}))
    tensors = {"linear.weight": weight, **({} if bias is None else {"linear.bias": bias})}
    save_file(tensors, folder / "model.safetensors")


def test_the_mean_of_tokens_of_length_1(tmp_path):
    write_encoder_model(tmp_path)
    nodes = loaded(tmp_path, hidden=ENCODER, pooled=POOL, unit={"type": "normalize", "from": "pooled"})
    assert nodes["hidden"].gives == RowShape(True, 2)
    assert nodes["pooled"].gives == nodes["unit"].gives == RowShape(False, 2)
    means = np.array([[2, 14 / 3], [4, 16], [5.5, 30.5]])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(run(nodes), expected, rtol=1e-6)
    expected[1] = means[1]
    np.testing.assert_allclose(run(nodes, [True, False, True]), expected, rtol=1e-6)


def test_rows_of_tokens_stay(tmp_path):
    write_encoder_model(tmp_path)
    nodes = loaded(tmp_path, hidden=ENCODER, pooled={**POOL, "how": "none"})
    assert nodes["pooled"].gives == RowShape(True, 2)
    assert run(nodes)[0, :3].tolist() == [[1, 1], [2, 4], [3, 9]]


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_dense_layer_is_a_folder_of_sentence_transformers(tmp_path, has_bias):
    write_encoder_model(tmp_path)
    weight = np.random.default_rng(0).normal(0, 0.1, (3, 2)).astype(np.float16)
    bias = np.arange(3, dtype=np.float32) if has_bias else None
    write_dense(tmp_path / "2_Dense", weight, bias, "torch.nn.modules.activation.Tanh")
    dense = {"type": "dense", "from": "pooled", "path": "2_Dense"}
    nodes = loaded(tmp_path, hidden=ENCODER, pooled={**POOL, "how": "cls"}, wide=dense)
    assert nodes["wide"].gives == RowShape(False, 3)
    rows = np.array([[1, 1], [4, 16], [5, 25]], np.float32)
    expected = np.tanh(rows @ weight.astype(np.float32).T + (0 if bias is None else bias))
    np.testing.assert_allclose(run(nodes), expected, rtol=1e-5)


def test_probabilities_of_rows_that_the_model_gives(tmp_path):
    write_encoder_model(tmp_path, text=TEXT_ROWS)
    rows = np.array([[1, 1], [4, 16], [5, 25]], np.float64)
    softmax = run(loaded(tmp_path, hidden=ENCODER, end={"type": "softmax", "from": "hidden"}))
    np.testing.assert_allclose(softmax, np.exp(rows) / np.exp(rows).sum(1, keepdims=True), rtol=1e-5)
    sigmoid = run(loaded(tmp_path, hidden=ENCODER, end={"type": "sigmoid", "from": "hidden"}))
    np.testing.assert_allclose(sigmoid, 1 / (1 + np.exp(-rows)), rtol=1e-5)


def test_rows_of_texts_are_not_pooled(tmp_path):
    write_encoder_model(tmp_path, text=TEXT_ROWS)
    for how in ("mean", "none"):
        with pytest.raises(
            ModelError, match="the line above gives 2 numbers for each text: delete this line"
        ):
            loaded(tmp_path, hidden=ENCODER, pooled={**POOL, "how": how})
    write_encoder_model(tmp_path)
    with pytest.raises(ModelError, match="2 numbers for each text"):
        loaded(tmp_path, hidden=ENCODER, pooled=POOL, again={**POOL, "from": "pooled"})


@pytest.mark.parametrize("kind", ["pool", "normalize", "softmax", "sigmoid"])
def test_an_encoder_stands_above(tmp_path, kind):
    settings = {"how": "cls"} if kind == "pool" else {}
    with pytest.raises(ModelError, match="`from: batch` gives no vectors"):
        loaded(tmp_path, line={"type": kind, "from": "batch", **settings})


def test_a_dense_layer_that_does_not_fit_is_refused(tmp_path):
    write_encoder_model(tmp_path)
    write_dense(tmp_path / "wide", np.zeros((3, 5), np.float32), None, "torch.nn.modules.linear.Identity")
    write_dense(tmp_path / "odd", np.zeros((3, 2), np.float32), None, "torch.nn.modules.activation.Mish")
    write_dense(tmp_path / "torch", np.zeros((3, 2), np.float32), None, "torch.nn.modules.linear.Identity")
    (tmp_path / "torch" / "model.safetensors").rename(tmp_path / "torch" / "pytorch_model.bin")
    write_dense(tmp_path / "broken", np.zeros((3, 2), np.float32), None, "torch.nn.modules.linear.Identity")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no tensors")
    for path, complaint in (
        ("wide", "takes vectors of 5 numbers, but the line above gives 2 numbers for each token"),
        ("odd", "activation torch.nn.modules.activation.Mish is none of identity, tanh"),
        ("torch", r"has only pytorch_model\.bin; braid export makes model\.safetensors of it"),
        ("broken", "holds no dense layer"),
        ("gone", "there is no file `gone/config.json`"),
    ):
        with pytest.raises((ModelError, ValueError), match=complaint):
            loaded(tmp_path, hidden=ENCODER, wide={"type": "dense", "from": "hidden", "path": path})


@pytest.mark.parametrize(("dtype", "written"), [("BF16", "u2"), ("F16", "f2"), ("F32", "f4"), ("F64", "f8")])
def test_a_dense_layer_may_be_of_any_floats(tmp_path, dtype, written):
    weight = np.array([[1.0, -2.5, 0.375], [3.0, 1e-2, 96.0]], np.float32)
    data = (weight.view(np.uint32) >> 16 if dtype == "BF16" else weight).astype(written).tobytes()
    header = {"linear.weight": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, len(data)]}}
    said = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(said).to_bytes(8, "little") + said + data)
    read, bias = read_weights(tmp_path)
    assert (read.dtype, bias) == (np.float32, None)
    np.testing.assert_allclose(read, weight, rtol=2**-7)
    np.testing.assert_array_equal(read[0], weight[0])


def test_a_dense_layer_of_integers_is_refused(tmp_path):
    save_file({"linear.weight": np.zeros((2, 3), np.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="no dense layer of floats: 'I8'"):
        read_weights(tmp_path)


def test_a_graph_names_every_way_of_pooling():
    named = get_args(Pool.Config.model_fields["how"].annotation)
    assert {*named} == {*POOLINGS, "none"}


def test_two_lines_may_read_the_same_rows(tmp_path):
    write_encoder_model(tmp_path)
    nodes = loaded(tmp_path, hidden=ENCODER, pooled=POOL, unit={"type": "normalize", "from": "pooled"})
    before = run({name: nodes[name] for name in ("hidden", "pooled")})
    run(nodes)
    np.testing.assert_array_equal(run({name: nodes[name] for name in ("hidden", "pooled")}), before)
