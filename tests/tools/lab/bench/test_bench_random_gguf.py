"""GGUF files of random weights: whole for other readers, of the types that llama.cpp chooses, converted."""

from dataclasses import replace

import gguf
import numpy as np
import pytest

from pipelines.gguf.convert import convert
from tools.lab.bench.random_gguf import SHAPES, write

SMALL = replace(SHAPES["qwen3-0.6b"], layers=9, width=256, inner=512, heads=2, kv_heads=1, tokens=300)
EXPERTS = replace(
    SHAPES["gpt-oss-20b"], layers=1, width=96, inner=64, heads=4, kv_heads=1, tokens=300, experts=4, used=2
)


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_mixture_is_that_of_llama_cpp(tmp_path, is_tied):
    path = tmp_path / "small.gguf"
    write(path, replace(SMALL, is_tied=is_tied), "Q4_K_M")
    kinds = {each.name: each.tensor_type.name for each in gguf.GGUFReader(path).tensors}
    wide = [layer for layer in range(9) if kinds[f"blk.{layer}.ffn_down.weight"] == "Q6_K"]
    assert wide == [0, 3, 6, 7, 8]
    assert kinds["token_embd.weight"] == ("Q6_K" if is_tied else "Q4_K")
    assert kinds.get("output.weight") == (None if is_tied else "Q6_K")
    assert {kinds[f"blk.{layer}.attn_q.weight"] for layer in range(9)} == {"Q4_K"}


def test_a_mixture_of_experts_has_its_types(tmp_path):
    path = tmp_path / "small.gguf"
    write(path, EXPERTS, "MXFP4")
    shapes = {
        each.name: (each.tensor_type.name, each.shape.tolist()) for each in gguf.GGUFReader(path).tensors
    }
    assert shapes["blk.0.ffn_down_exps.weight"] == ("MXFP4", [64, 96, 4])
    assert shapes["blk.0.ffn_gate_inp.weight"] == ("F32", [96, 4])
    assert shapes["blk.0.attn_q.weight"] == ("Q8_0", [96, 256])
    assert shapes["output.weight"] == ("Q8_0", [96, 300])


@pytest.mark.parametrize(
    ("shape", "kind"),
    [*((SMALL, kind) for kind in ("Q4_0", "Q4_1", "Q4_K_M", "Q8_0")), (EXPERTS, "Q4_0"), (EXPERTS, "MXFP4")],
)
def test_weights_neither_grow_nor_vanish(tmp_path, shape, kind):
    path = tmp_path / "small.gguf"
    write(path, shape, kind)
    for tensor in gguf.GGUFReader(path).tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if weights.ndim > 1:
            assert 0.8 < np.std(weights) * weights.shape[-1] ** 0.5 < 1.25, tensor.name
            assert abs(np.mean(weights)) * weights.shape[-1] ** 0.5 < 0.15, (
                tensor.name
            )  # codes of four bits are -8 to 7
    convert(path, tmp_path / "folder")
    assert (tmp_path / "folder" / "tokenizer.json").is_file()
