"""`python -m tools.lab.bench.random_gguf FILE.gguf --shape qwen3-0.6b --type Q4_K_M`: random weights.

The file has Qwen3's architecture and a vocabulary of byte-level BPE, and is read by Braid and by llama.cpp.
Of Q4_K_M files the head, and v and down of half of the layers are Q6_K, as llama.cpp writes them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

VOCAB_SIZE, HEAD_SIZE, CONTEXT = 151_936, 128, 4096
MIXED = "Q4_K_M"


@dataclass(frozen=True)
class Shape:
    """The sizes of a Qwen3; the table of embeddings is the head's."""

    width: int
    inner: int
    layers: int = 28
    heads: int = 16
    kv_heads: int = 8
    vocab_size: int = VOCAB_SIZE


SHAPES = {
    "qwen3-0.6b": Shape(1024, 3072),
    "qwen3-1.7b": Shape(2048, 6144),
    "tiny": Shape(256, 512, 2, 4, 2, 300),
}


@dataclass(frozen=True)
class Blocks:
    """The blocks of a quantized type: weights and bytes of one, where its float16 scale is, and the deviation
    of its codes.
    """

    weights: int
    bytes: int
    scale_at: int
    deviation: float


TYPES = {
    "Q4_0": Blocks(32, 18, 0, 4.6),
    "Q4_1": Blocks(32, 20, 0, 4.6),
    "Q8_0": Blocks(32, 34, 0, 74.0),
    "Q4_K": Blocks(256, 144, 0, 4.6 * 31.5),
    "Q6_K": Blocks(256, 210, 208, 18.5 * 74.0),
}
MINIMA = {"Q4_1": 7.5, "Q4_K": 7.5}
"""Types with minima, whose factor is behind the scale → minimum / scale, which centres the weights."""


def random_blocks(rng: np.random.Generator, kind: str, rows: int, width: int) -> NDArray[np.uint8]:
    """uint8[rows, bytes of a row]: random codes; weights have a deviation of about 1 / sqrt(width)."""
    blocks = TYPES[kind]
    count = rows * width // blocks.weights
    raw = rng.integers(0, 256, (count, blocks.bytes), np.uint8)
    scales = (0.5 + rng.random(count, np.float32)) * np.float32(width**-0.5 / blocks.deviation)
    _put_half(raw, blocks.scale_at, scales)
    if kind in MINIMA:
        sign = -1 if kind == "Q4_1" else 1  # K types subtract theirs
        _put_half(raw, blocks.scale_at + 2, sign * scales * np.float32(MINIMA[kind]))
    return raw.reshape(rows, -1)


def _put_half(raw: NDArray[np.uint8], at: int, values: NDArray[np.float32]) -> None:
    raw[:, at : at + 2] = values.astype(np.float16)[:, None].view(np.uint8)


def type_of(name: str, kind: str) -> str:
    """The type of a tensor in a file of `kind`."""
    if kind != MIXED:
        return kind
    part, layer = name.rpartition(".")[2], name.split(".")[1] if name.startswith("blk.") else "1"
    is_wide = part == "token_embd" or (part in ("attn_v", "ffn_down") and int(layer) % 2 == 0)
    return "Q6_K" if is_wide else "Q4_K"


def write(file: Path, shape: Shape, kind: str) -> None:
    writer, rng = GGUFWriter(file, "qwen3"), np.random.default_rng(1)
    _write_sizes(writer, shape)
    _write_vocabulary(writer, shape.vocab_size)

    def weight(name: str, rows: int, width: int) -> None:
        own = type_of(name, kind)
        raw = random_blocks(rng, own, rows, width)
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=GGMLQuantizationType[own])

    def norm(name: str, size: int) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(size, np.float32))

    weight("token_embd", shape.vocab_size, shape.width)
    norm("output_norm", shape.width)
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        for name, size in (("attn_norm", shape.width), ("ffn_norm", shape.width)):
            norm(at + name, size)
        for name in ("attn_q_norm", "attn_k_norm"):
            norm(at + name, HEAD_SIZE)
        weight(f"{at}attn_q", shape.heads * HEAD_SIZE, shape.width)
        for name in ("attn_k", "attn_v"):
            weight(at + name, shape.kv_heads * HEAD_SIZE, shape.width)
        weight(f"{at}attn_output", shape.width, shape.heads * HEAD_SIZE)
        for name in ("ffn_gate", "ffn_up"):
            weight(at + name, shape.inner, shape.width)
        weight(f"{at}ffn_down", shape.width, shape.inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_sizes(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)


def _write_vocabulary(writer: GGUFWriter, size: int) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pair = letters[0] + letters[1]
    words = [*letters, pair]
    fillers = [f"[PAD{number}]" for number in range(size - len(words) - 1)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*words, *fillers, "<|im_end|>"])
    writer.add_token_types([TokenType.NORMAL] * len(words) + [TokenType.CONTROL] * (len(fillers) + 1))
    writer.add_token_merges([f"{letters[0]} {letters[1]}"])
    writer.add_eos_token_id(size - 1)
    writer.add_add_bos_token(False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.bench.random_gguf", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--type", choices=[*TYPES, MIXED], default="Q4_0")
    parser.add_argument("--layers", type=int, help="fewer layers than the shape has")
    asked = parser.parse_args()
    shape = SHAPES[asked.shape]
    write(asked.file, Shape(**{**shape.__dict__, "layers": asked.layers or shape.layers}), asked.type)


if __name__ == "__main__":
    main()
