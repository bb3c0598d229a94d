"""A small gpt-oss for a pack: attention with sinks, in every second layer within a window, positions by YaRN,
and experts with biases and a clamped activation, of which a GGUF file has MXFP4 weights.

All experts are used, with the router's weights: which of them are chosen where two are nearly equal depends
on the last bits of 16, and the check `mixture` is about choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Type

from tools.lab.gpu_check.packs.hybrid_files import (
    HEAD_SIZE,
    HEADS,
    KV_HEADS,
    SIZES,
    TOKENS,
    WIDTH,
    Draw,
    Tensor,
    add_sizes,
    write_all,
)

LAYERS, EXPERTS, INNER, WINDOW = 4, 4, 64, 48
FACTOR, TRAINED = 4.0, 128
"""YaRN's: by how much positions are stretched, and the context before that."""
ARCHITECTURE = "gpt-oss"
EXPERT_BLOCKS = Type.MXFP4
SETTINGS: dict[str, Any] = SIZES | {
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS,
    "head_dim": HEAD_SIZE,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": FACTOR,
        "original_max_position_embeddings": TRAINED,
        "truncate": False,
    },
    "attention_bias": True,
}
"""What transformers' settings have."""


def write_gpt_oss(path: Path, seed: int = 0) -> None:
    """Write a small file of gpt-oss; matrices that are no experts have blocks of Q8_0."""
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    add_sizes(writer, LAYERS, INNER)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_sliding_window(WINDOW)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(EXPERTS)
    writer.add_expert_feed_forward_length(INNER)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(FACTOR)
    writer.add_rope_scaling_orig_ctx_len(TRAINED)
    write_all(writer, _tensors(Draw(seed)), lambda name: EXPERT_BLOCKS if "_exps." in name else Type.Q8_0)


def _tensors(draw: Draw) -> Iterator[Tensor]:
    yield draw.matrix("token_embd", TOKENS, WIDTH)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        yield draw.norm(f"{at}attn_norm", WIDTH)
        yield from _attention(draw, at)
        yield draw.norm(f"{at}post_attention_norm", WIDTH)
        yield draw.matrix(f"{at}ffn_gate_inp", EXPERTS, WIDTH)
        yield draw.vector(f"{at}ffn_gate_inp.bias", 0.0, EXPERTS)
        for side, rows, columns in (("gate", INNER, WIDTH), ("up", INNER, WIDTH), ("down", WIDTH, INNER)):
            yield draw.matrix(f"{at}ffn_{side}_exps", EXPERTS, rows, columns)
            yield draw.vector(f"{at}ffn_{side}_exps.bias", 0.0, EXPERTS, rows)
    yield draw.norm("output_norm", WIDTH)
    yield draw.matrix("output", TOKENS, WIDTH)


def _attention(draw: Draw, at: str) -> Iterator[Tensor]:
    for side, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
        yield draw.matrix(f"{at}attn_{side}", heads * HEAD_SIZE, WIDTH)
        yield draw.vector(f"{at}attn_{side}.bias", 0.0, heads * HEAD_SIZE)
    yield draw.matrix(f"{at}attn_output", WIDTH, HEADS * HEAD_SIZE)
    yield draw.vector(f"{at}attn_output.bias", 0.0, WIDTH)
    yield draw.vector(f"{at}attn_sinks.weight", 1.0, HEADS)
