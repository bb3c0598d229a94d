"""Folders of adapters as PEFT writes them: what is read, and the sentence with which the rest is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pipelines.adapters.linear_names import linear_name, named_linear
from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.adapters.weights import AdapterError, LinearShape

PRODUCTS = {
    f"layers.{layer}.self_attn.{name}": LinearShape(8, size)
    for layer in range(2)
    for name, size in (("q_proj", 6), ("v_proj", 4))
}
Q, V = (
    "base_model.model.model.layers.{}.self_attn.q_proj",
    "base_model.model.model.layers.{}.self_attn.v_proj",
)


def tensors(*modules: str, rank: int = 2, **sizes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {}
    for module in modules:
        size = sizes.get(module.rpartition(".")[2], 6 if module.endswith("q_proj") else 4)
        made[f"{module}.lora_A.weight"] = rng.standard_normal((rank, 8)).astype(np.float32)
        made[f"{module}.lora_B.weight"] = rng.standard_normal((size, rank)).astype(np.float32)
    return made


ALL = tensors(*(each.format(layer) for layer in range(2) for each in (Q, V)))


def write(folder: Path, weights: dict[str, np.ndarray] | None = None, **config: Any) -> Path:
    fields = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(fields | config))
    save_file(ALL if weights is None else weights, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 1.5),
        ({"use_rslora": True}, 3 / 2**0.5),
        ({"alpha_pattern": {"v_proj": 8}}, 1.5),
        ({"alpha_pattern": {r"layers\.1\.self_attn\.q_proj": 8}}, 4),
        ({"target_modules": "all-linear"}, 1.5),
        ({"target_modules": r".*\.(q|v)_proj", "lora_dropout": 0.1, "use_dora": False}, 1.5),
    ],
)
def test_the_scale_is_contained_in_b(tmp_path, config, scale):
    read = read_adapter(write(tmp_path, **config), PRODUCTS, max_rank=2)
    own = read.linears["layers.1.self_attn.q_proj"]
    np.testing.assert_array_equal(own.a, ALL[f"{Q.format(1)}.lora_A.weight"])
    np.testing.assert_allclose(own.b, ALL[f"{Q.format(1)}.lora_B.weight"] * scale, rtol=1e-6)
    assert (read.rank, len(read.linears), read.num_bytes) == (2, 4, 4 * 2 * (2 * (8 + 6) + 2 * (8 + 4)))


def test_products_may_have_ranks_of_their_own(tmp_path):
    weights = tensors(Q.format(0)) | tensors(Q.format(1), rank=5)
    write(tmp_path, weights, target_modules=["q_proj"], rank_pattern={r"1\.self_attn\.q_proj": 5})
    read = read_adapter(tmp_path, PRODUCTS, max_rank=5)
    assert (read.rank, len(read.linears["layers.0.self_attn.q_proj"].a)) == (5, 2)
    with pytest.raises(
        AdapterError, match=r"layers.1.self_attn.q_proj has rank 5, greater than .*max_rank 4"
    ):
        read_adapter(tmp_path, PRODUCTS, max_rank=4)


def test_parts_of_one_product_are_read_as_one(tmp_path):
    """An export that computes queries, keys and values at once: 6, 4 and 4 rows."""
    weights = tensors(Q.format(0), V.format(0))
    write(tmp_path, weights)
    fused = {"layers.0.self_attn.qkv_proj": LinearShape(8, 14)}
    own = read_adapter(tmp_path, fused, max_rank=2).linears["layers.0.self_attn.qkv_proj"]
    x = np.arange(8, dtype=np.float32)
    q, v = (
        1.5
        * weights[f"{linear.format(0)}.lora_B.weight"]
        @ (weights[f"{linear.format(0)}.lora_A.weight"] @ x)
        for linear in (Q, V)
    )
    np.testing.assert_allclose(own.b @ (own.a @ x), np.concatenate([q, np.zeros(4), v]), rtol=1e-5)
    with pytest.raises(AdapterError, match="gives 12 numbers; its parts in the adapter are"):
        read_adapter(tmp_path, {"layers.0.self_attn.qkv_proj": LinearShape(8, 12)}, max_rank=2)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"peft_type": "IA3"}, "peft_type is IA3; only LORA is served"),
        ({"use_dora": True}, "use_dora is not supported: DoRA"),
        ({"bias": "lora_only"}, "bias is lora_only"),
        ({"lora_bias": True}, "lora_bias is not supported"),
        ({"modules_to_save": ["norm"]}, "modules_to_save names norm; only embed_tokens and lm_head are repl"),
        ({"target_parameters": ["experts.down"]}, "target_parameters is not supported"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "init_lora_weights is pissa_niter_4, which changes the model",
        ),
        ({"r": 0}, "adapter_config.json: r: "),
        ({"r": 3}, r"lora_A.weight is 2 × 8, its lora_B 6 × 2; adapter_config.json says rank 3"),
    ],
)
def test_what_is_not_served_is_refused_by_field(tmp_path, config, sentence):
    with pytest.raises(AdapterError, match=sentence):
        read_adapter(write(tmp_path, **config), PRODUCTS, max_rank=2)


EXPERT = "base_model.model.model.layers.1.mlp.experts.3.up_proj"
VISION = tensors("base_model.model.model.vision_tower.encoder.layers.0.self_attn.q_proj")


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (ALL | tensors(EXPERT), "layers.1.mlp.experts.3.up_proj.lora_A.weight belongs to a routed expert"),
        (VISION, "vision_tower.* belongs to no linear layer of a text layer"),
        (tensors(Q.format(0)), "layers.0.self_attn.v_proj has no tensors, but target_modules names it"),
        (dict([*ALL.items()][1:]), "q_proj.lora_A.weight is missing beside "),
        (ALL | tensors(Q.format(7)), "layers.7.self_attn.q_proj is not prepared for adapters in this model"),
        (ALL | tensors(V.format(0).replace("v_", "k_")), "add k_proj to `targets` and reload"),
        (ALL | tensors(Q.format(0), q_proj=5), "adapted from 8 numbers to 5; the model's is from 8 to 6"),
        (
            {"base_model.model.extra": np.zeros(1, np.float32)},
            "tensor base_model.model.extra belongs to no linear layer",
        ),
        ({}, "adapter_model.safetensors has no tensors"),
        ({name: each.astype(np.int32) for name, each in ALL.items()}, "numbers of type 'I32'"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(tmp_path, weights, sentence):
    with pytest.raises(AdapterError, match=sentence):
        read_adapter(write(tmp_path, weights), PRODUCTS, max_rank=2)


def test_a_pickle_is_never_read_nor_a_file_too_large(tmp_path, monkeypatch):
    file = write(tmp_path) / "adapter_model.safetensors"
    monkeypatch.setattr("pipelines.adapters.read_adapter.HEADER_BYTES", -1024)
    with pytest.raises(AdapterError, match="and an adapter of this model at most"):
        read_adapter(tmp_path, PRODUCTS, max_rank=2)
    monkeypatch.undo()
    file.write_bytes(b"cut")
    with pytest.raises(AdapterError, match="cannot be read"):
        read_adapter(tmp_path, PRODUCTS, max_rank=2)
    file.rename(tmp_path / "adapter_model.bin")
    with pytest.raises(AdapterError, match=r"safetensors is missing; .* a .bin is not read"):
        read_adapter(tmp_path, PRODUCTS, max_rank=2)


@pytest.mark.parametrize("text", ["{", "[]", '{"peft_type": "LORA"}'])
def test_a_config_that_says_nothing_is_refused(tmp_path, text):
    (write(tmp_path) / "adapter_config.json").write_text(text)
    with pytest.raises(AdapterError, match=r"adapter_config.json"):
        read_adapter(tmp_path, PRODUCTS, max_rank=2)


def test_targets_are_those_of_the_folders_that_can_be_read(tmp_path):
    for name in ("broken", "whole"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, tensors(V.format(1)))
    (tmp_path / "broken" / "adapter_model.safetensors").write_bytes(b"no")
    found = adapter_folders(tmp_path)
    assert [each.name for each in found] == ["broken", "whole"]
    assert adapter_targets(found) == {"v_proj"}


@pytest.mark.parametrize(
    ("module", "linear"),
    [
        ("encoder.layer.0.attention.self.query", "layer.0.attention.self.query"),
        ("bert.encoder.layer.0.attention.output.dense", "layer.0.attention.output.dense"),
        ("xlm_roberta.encoder.layer.3.output.dense", "layer.3.output.dense"),
        ("distilbert.transformer.layer.1.attention.q_lin", "layer.1.attention.q_lin"),
        ("layers.0.attn.Wqkv", "layers.0.attn.Wqkv"),
        ("model.layers.2.mlp.Wi", "layers.2.mlp.Wi"),
        ("0.auto_model.encoder.layer.0.attention.self.key", "layer.0.attention.self.key"),
        ("__module.model.layers.0.attn.q_proj", "layers.0.self_attn.q_proj"),
        ("bert.pooler.dense", None),
        ("classifier", None),
        ("vision_model.encoder.layers.0.self_attn.q_proj", None),
        ("audio_tower.layers.0.self_attn.q_proj", None),
    ],
)
def test_modules_of_layers_of_text_are_products(module, linear):
    assert linear_name(module) == linear
    assert named_linear(f"model.{module}.weight.T.int8", "node_3") == linear
    assert named_linear("onnx::MatMul_7", f"/{module.replace('.', '/')}/MatMul_1") == linear
