"""Adapters of embeddings and head: low-rank sums, whole matrices, and the sentence with which others are
refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pipelines.adapters.linear_names import end_name
from pipelines.adapters.read_adapter import adapter_targets, read_adapter
from pipelines.adapters.weights import AdapterError, LinearShape

VOCABULARY, WIDTH, RANK = 10, 8, 2
Q = "layers.0.self_attn.q_proj"
PRODUCTS = {
    Q: LinearShape(WIDTH, 6),
    "embed_tokens": LinearShape(VOCABULARY, WIDTH),
    "lm_head": LinearShape(WIDTH, VOCABULARY),
}
HEAD, EMBEDDINGS = "base_model.model.lm_head", "base_model.model.model.embed_tokens"
RNG = np.random.default_rng(0)


def made(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {
        name.replace("__", "."): RNG.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def of(module: str, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {f"{module}.{name}": each for name, each in made(**shapes).items()}


LAYERS = of(f"base_model.model.model.{Q}", lora_A__weight=(RANK, WIDTH), lora_B__weight=(6, RANK))
SUMS = of(HEAD, lora_A__weight=(RANK, WIDTH), lora_B__weight=(VOCABULARY, RANK)) | of(
    EMBEDDINGS, lora_embedding_A=(RANK, VOCABULARY), lora_embedding_B=(WIDTH, RANK)
)
COPIES = of(HEAD, base_layer__weight=(VOCABULARY, WIDTH)) | of(
    EMBEDDINGS, base_layer__weight=(VOCABULARY, WIDTH)
)
WHOLE = of(HEAD, weight=(VOCABULARY, WIDTH)) | of(EMBEDDINGS, weight=(VOCABULARY, WIDTH))
TARGETS = {"target_modules": ["q_proj", "embed_tokens", "lm_head"]}
SAVED = {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "model.lm_head"]}


def write(folder: Path, weights: dict[str, np.ndarray], config: dict[str, Any]) -> Path:
    fields = {"peft_type": "LORA", "r": RANK, "lora_alpha": 3, **config}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    save_file(weights, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize("copies", [{}, COPIES], ids=["without", "with the base's"])
def test_sums_of_both_ends_are_read(tmp_path, copies):
    read = read_adapter(write(tmp_path, LAYERS | SUMS | copies, TARGETS), PRODUCTS, max_rank=2)
    assert (read.rank, set(read.linears)) == (2, set(PRODUCTS))
    head, table = read.linears["lm_head"], read.linears["embed_tokens"]
    assert not head.replaces
    assert not table.replaces
    np.testing.assert_array_equal(head.a, SUMS[f"{HEAD}.lora_A.weight"])
    np.testing.assert_allclose(head.b, SUMS[f"{HEAD}.lora_B.weight"] * 1.5)
    np.testing.assert_array_equal(table.a, SUMS[f"{EMBEDDINGS}.lora_embedding_A"])
    np.testing.assert_allclose(table.b, SUMS[f"{EMBEDDINGS}.lora_embedding_B"] * 1.5)


def test_whole_matrices_take_the_place_of_the_models(tmp_path):
    read = read_adapter(write(tmp_path, LAYERS | WHOLE, SAVED), PRODUCTS, max_rank=2)
    head, table = read.linears["lm_head"], read.linears["embed_tokens"]
    assert (read.rank, head.replaces, table.replaces) == (2, True, True)
    np.testing.assert_array_equal(head.b @ head.a, WHOLE[f"{HEAD}.weight"])
    np.testing.assert_array_equal((table.b @ table.a).T, WHOLE[f"{EMBEDDINGS}.weight"])


def test_an_adapter_may_change_nothing_but_an_end(tmp_path):
    weights = {name: each for name, each in SUMS.items() if name.startswith(HEAD)}
    read = read_adapter(write(tmp_path, weights, {"target_modules": ["lm_head"]}), PRODUCTS, max_rank=2)
    assert (read.rank, [*read.linears]) == (0, ["lm_head"])


GROWN = of(HEAD, weight=(VOCABULARY + 1, WIDTH)) | of(EMBEDDINGS, weight=(VOCABULARY, WIDTH))


@pytest.mark.parametrize(
    ("weights", "config", "sentence"),
    [
        (
            LAYERS | GROWN,
            SAVED,
            r"lm_head.weight is 11 × 8, the model's lm_head 10 × 8: the vocabulary must be",
        ),
        (
            LAYERS | SUMS | of(EMBEDDINGS, base_layer__weight=(12, WIDTH)),
            TARGETS,
            r"embed_tokens.base_layer.weight is 12 × 8, the model's embed_tokens 10 × 8",
        ),
        (LAYERS, SAVED, "embed_tokens has no tensors, but modules_to_save names it"),
        (LAYERS, TARGETS, "embed_tokens has no tensors, but target_modules names it"),
        (SUMS, TARGETS, f"{Q} has no tensors, but target_modules names it"),
        (
            LAYERS | SUMS | WHOLE,
            SAVED,
            r"embed_tokens.lora_embedding_A does not belong to .*: embed_tokens is in",
        ),
        (
            LAYERS | WHOLE,
            TARGETS,
            r"embed_tokens.weight does not belong .* a low-rank sum, and not in modules_to",
        ),
        (
            LAYERS | dict([*SUMS.items()][1:]),
            TARGETS,
            r"tensor base_model.model.lm_head.lora_A.weight is missing beside .*lm_head.lora_B.weight",
        ),
        (
            LAYERS | SUMS | made(lm_head__lora_A__weight=(2, 8)),
            TARGETS,
            "tensor lm_head.lora_A.weight does not",
        ),
        (
            LAYERS | SUMS,
            TARGETS | {"rank_pattern": {"lm_head": 3}},
            "lm_head.lora_A.weight is 2 × 8, .* rank 3",
        ),
        (LAYERS | WHOLE | of(HEAD, bias=(VOCABULARY,)), SAVED, "lm_head.bias belongs to no linear layer"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, weights, config, sentence):
    with pytest.raises(AdapterError, match=sentence):
        read_adapter(write(tmp_path, weights, config), PRODUCTS, max_rank=4)


def test_a_model_without_room_at_its_ends_says_so_whatever_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.adapters.read_adapter.HEADER_BYTES", -1024)
    write(tmp_path, LAYERS | WHOLE, SAVED)
    with pytest.raises(
        AdapterError, match=r"lm_head.weight: lm_head is not prepared .* add lm_head to `targ"
    ):
        read_adapter(tmp_path, {Q: PRODUCTS[Q]}, max_rank=2)


def test_all_linear_names_no_end(tmp_path):
    write(tmp_path, LAYERS, {"target_modules": "all-linear"})
    assert [*read_adapter(tmp_path, PRODUCTS, max_rank=2).linears] == [Q]


def test_ends_are_targets_of_the_adapters_that_change_them(tmp_path):
    assert adapter_targets([write(tmp_path, LAYERS | WHOLE, SAVED)]) == {"q_proj", "embed_tokens", "lm_head"}
    assert adapter_targets([write(tmp_path, LAYERS, TARGETS)]) == {"q_proj"}


@pytest.mark.parametrize(
    ("module", "end"),
    [
        ("model.embed_tokens", "embed_tokens"),
        ("model.language_model.embed_tokens", "embed_tokens"),
        ("transformer.wte", "embed_tokens"),
        ("gpt_neox.embed_in", "embed_tokens"),
        ("embed_out", "lm_head"),
        ("language_model.lm_head", "lm_head"),
        ("model.vision_tower.embed_tokens", None),
        ("model.layers.0.lm_head", None),
        ("score", None),
    ],
)
def test_ends_have_the_names_that_families_give_them(module, end):
    assert end_name(module) == end
