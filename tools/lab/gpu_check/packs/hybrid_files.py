"""Small hybrid decoders with random weights for a pack: as GGUF files, and as `braid export` traces them.

Needs the extra `export`; what reads a pack (`packed_hybrids.py`) needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from tools.lab.bench.random_gguf import vocabulary

TOKENS, WIDTH, INNER, CONTEXT = 512, 128, 256, 1024
HEADS, KV_HEADS, HEAD_SIZE, KERNEL = 2, 1, 64, 4
GROUPS, NET_HEADS, NET_SIZE = 2, 4, 32
"""Key heads and value heads of a delta net, and the numbers of each."""
MAMBA_HEADS, MAMBA_SIZE, STATE_SIZE = 8, 32, 16
RECURRENT = (0, 2)
LAYERS = 3
BLOCKS = Type.Q4_0
"""The type of all matrices of GGUF files."""


class Tensor(NamedTuple):
    """A tensor of a file; `is_matrix`: in blocks of few bits."""

    name: str
    values: NDArray[np.float32]
    is_matrix: bool


class Draw:
    """Random tensors, named as llama.cpp's converter names them."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, name: str, *shape: int) -> Tensor:
        return Tensor(f"{name}.weight", self._normal(0.0, shape[-1] ** -0.5, shape), is_matrix=True)

    def norm(self, name: str, *shape: int) -> Tensor:
        return Tensor(f"{name}.weight", self._normal(1.0, 0.1, shape), is_matrix=False)

    def vector(self, name: str, mean: float, *shape: int) -> Tensor:
        return Tensor(name, self._normal(mean, 0.3, shape), is_matrix=False)

    def decays(self, name: str, *shape: int) -> Tensor:
        return Tensor(name, -np.exp(self._normal(0.0, 0.5, shape)), is_matrix=False)

    def _normal(self, mean: float, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return self._rng.normal(mean, deviation, shape).astype(np.float32)


def _attention(draw: Draw, at: str, has_norms: bool, is_gated: bool) -> Iterator[Tensor]:
    for name, heads in (("q", HEADS * (1 + is_gated)), ("k", KV_HEADS), ("v", KV_HEADS)):
        yield draw.matrix(f"{at}attn_{name}", heads * HEAD_SIZE, WIDTH)
        if has_norms and name != "v":
            yield draw.norm(f"{at}attn_{name}_norm", HEAD_SIZE)
    yield draw.matrix(f"{at}attn_output", WIDTH, HEADS * HEAD_SIZE)


def _short_conv(draw: Draw, at: str) -> Iterator[Tensor]:
    yield draw.matrix(f"{at}shortconv.in_proj", 3 * WIDTH, WIDTH)
    yield draw.matrix(f"{at}shortconv.out_proj", WIDTH, WIDTH)
    yield draw.vector(f"{at}shortconv.conv.weight", 0.0, WIDTH, KERNEL)


def _delta_net(draw: Draw, at: str) -> Iterator[Tensor]:
    values = NET_HEADS * NET_SIZE
    channels = 2 * GROUPS * NET_SIZE + values
    yield draw.matrix(f"{at}attn_qkv", channels, WIDTH)
    yield draw.matrix(f"{at}attn_gate", values, WIDTH)
    yield draw.matrix(f"{at}ssm_beta", NET_HEADS, WIDTH)
    yield draw.matrix(f"{at}ssm_alpha", NET_HEADS, WIDTH)
    yield draw.vector(f"{at}ssm_conv1d.weight", 0.0, channels, KERNEL)
    yield draw.vector(f"{at}ssm_dt.bias", 0.0, NET_HEADS)
    yield draw.decays(f"{at}ssm_a", NET_HEADS)
    yield draw.norm(f"{at}ssm_norm", NET_SIZE)
    yield draw.matrix(f"{at}ssm_out", WIDTH, values)


def _mamba2(draw: Draw, at: str) -> Iterator[Tensor]:
    inner = MAMBA_HEADS * MAMBA_SIZE
    channels = inner + 2 * STATE_SIZE
    yield draw.matrix(f"{at}ssm_in", inner + channels + MAMBA_HEADS, WIDTH)
    yield draw.vector(f"{at}ssm_conv1d.weight", 0.0, channels, KERNEL)
    yield draw.vector(f"{at}ssm_conv1d.bias", 0.0, channels)
    yield draw.vector(f"{at}ssm_dt.bias", 0.0, MAMBA_HEADS)
    yield draw.decays(f"{at}ssm_a", MAMBA_HEADS, 1)
    yield draw.vector(f"{at}ssm_d", 1.0, MAMBA_HEADS, 1)
    yield draw.norm(f"{at}ssm_norm", 1, inner)
    yield draw.matrix(f"{at}ssm_out", WIDTH, inner)


def _lfm2_settings(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count_kv(_kv_heads())
    writer.add_shortconv_l_cache(KERNEL)


def _net_settings(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count_kv(KV_HEADS)
    writer.add_ssm_inner_size(NET_HEADS * NET_SIZE)
    writer.add_ssm_state_size(NET_SIZE)
    writer.add_ssm_time_step_rank(NET_HEADS)
    writer.add_ssm_group_count(GROUPS)
    writer.add_full_attention_interval(2)
    writer.add_rope_dimension_count(HEAD_SIZE // 4)
    writer.add_rope_dimension_sections([3, 3, 2, 0])


def _mamba_settings(writer: gguf.GGUFWriter) -> None:
    writer.add_head_count_kv(_kv_heads())
    writer.add_ssm_inner_size(MAMBA_HEADS * MAMBA_SIZE)
    writer.add_ssm_state_size(STATE_SIZE)
    writer.add_ssm_time_step_rank(MAMBA_HEADS)
    writer.add_ssm_group_count(1)
    writer.add_rope_scaling_finetuned(False)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_embedding_scale(3.0)
    writer.add_residual_scale(0.5)
    writer.add_attention_scale(HEAD_SIZE**-0.5)
    writer.add_logit_scale(2.0)


def _kv_heads() -> list[int]:
    return [0 if layer in RECURRENT else KV_HEADS for layer in range(LAYERS)]


class Kind(NamedTuple):
    """An architecture: its recurrent layer, settings and norms; `head`: whether it has one of its own."""

    layer: Callable[[Draw, str], Iterator[Tensor]]
    settings: Callable[[gguf.GGUFWriter], None]
    second_norm: str
    last_norm: str
    has_norms: bool
    is_gated: bool
    head: bool


ARCHITECTURES = {
    "lfm2": Kind(_short_conv, _lfm2_settings, "ffn_norm", "token_embd_norm", True, False, False),
    "qwen35": Kind(_delta_net, _net_settings, "post_attention_norm", "output_norm", True, True, True),
    "granitehybrid": Kind(_mamba2, _mamba_settings, "ffn_norm", "output_norm", False, False, True),
}


def tensors(kind: Kind, draw: Draw) -> Iterator[Tensor]:
    """All tensors of a file."""
    yield draw.matrix("token_embd", TOKENS, WIDTH)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        yield draw.norm(f"{at}attn_norm", WIDTH)
        if layer in RECURRENT:
            yield from kind.layer(draw, at)
        else:
            yield from _attention(draw, at, kind.has_norms, kind.is_gated)
        yield draw.norm(f"{at}{kind.second_norm}", WIDTH)
        yield draw.matrix(f"{at}ffn_gate", INNER, WIDTH)
        yield draw.matrix(f"{at}ffn_up", INNER, WIDTH)
        yield draw.matrix(f"{at}ffn_down", WIDTH, INNER)
    yield draw.norm(kind.last_norm, WIDTH)
    if kind.head:
        yield draw.matrix("output", TOKENS, WIDTH)


def write_gguf(path: Path, architecture: str, seed: int = 0) -> None:
    """Write a small file of `architecture`, a key of `ARCHITECTURES`."""
    kind = ARCHITECTURES[architecture]
    writer = gguf.GGUFWriter(path, architecture)
    add_sizes(writer, LAYERS, INNER)
    if architecture != "lfm2":
        writer.add_ssm_conv_kernel(KERNEL)
    kind.settings(writer)
    write_all(writer, tensors(kind, Draw(seed)), lambda name: BLOCKS)


def add_sizes(writer: gguf.GGUFWriter, layers: int, inner: int) -> None:
    """The sizes that all small files have."""
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(HEADS)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_freq_base(1e4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(TOKENS)


def write_all(writer: gguf.GGUFWriter, all_tensors: Iterable[Tensor], type_of: Callable[[str], Type]) -> None:
    """Write a file with these tensors and close it; `type_of` gives the type of a matrix by its name."""
    _add_tokenizer(writer)
    for tensor in all_tensors:
        if tensor.is_matrix:
            dtype = type_of(tensor.name)
            writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.values, dtype), raw_dtype=dtype)
        else:
            writer.add_tensor(tensor.name, tensor.values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    words, kinds, merges = vocabulary(TOKENS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(TOKENS - 1)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


SIZES: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.1,
    "pad_token_id": None,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "head_dim": HEAD_SIZE,
        "linear_num_key_heads": GROUPS,
        "linear_num_value_heads": NET_HEADS,
        "linear_key_head_dim": NET_SIZE,
        "linear_value_head_dim": NET_SIZE,
        "num_experts": 0,
        "mlp_only_layers": list(range(LAYERS)),
    },
    "falcon_h1": {
        "head_dim": HEAD_SIZE,
        "mamba_n_heads": MAMBA_HEADS,
        "mamba_d_head": MAMBA_SIZE,
        "mamba_d_ssm": MAMBA_HEADS * MAMBA_SIZE,
        "mamba_n_groups": 1,
        "mamba_d_state": STATE_SIZE,
    },
}
"""Families of transformers → what their settings have beside `SIZES`."""
