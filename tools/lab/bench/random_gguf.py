"""`python -m tools.lab.bench.random_gguf FILE`: random weights in a real model's shape and types.

For measurements of loading and of speed.  Tensors are made and written one after the other, so a file may be
larger than memory.  The vocabulary has the model's size; its texts are bytes, pairs and triples of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

import click
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

PIECE_BLOCKS = 1 << 17
"""Blocks that are made at once."""
EXPERTS = "_exps"
FINE = ("attn_v", "ffn_down", f"ffn_down{EXPERTS}")
"""Tensors that have more bits in some layers of files of Q4_K_M."""
ENDS = ("<|im_end|>", "<|endoftext|>")
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
BYTES = 256


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder of Qwen3's kind; `is_tied`: its head is the table of its embeddings.

    With `experts`, each layer has that many networks of `inner`, of which a token uses `used`.
    """

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int = 8
    head_size: int = 128
    tokens: int = 151_936
    is_tied: bool = True
    experts: int = 0
    used: int = 0


SHAPES = {
    "qwen3-0.6b": Shape(28, 1024, 3072, 16),
    "qwen3-1.7b": Shape(28, 2048, 6144, 16),
    "qwen3-4b": Shape(36, 2560, 9728, 32),
    "qwen3-8b": Shape(36, 4096, 12288, 32, is_tied=False),
    "qwen3-30b-a3b": Shape(48, 2048, 768, 32, kv_heads=4, is_tied=False, experts=128, used=8),
    "gpt-oss-20b": Shape(24, 2880, 2880, 64, head_size=64, tokens=201_088, is_tied=False, experts=32, used=4),
}
"""The last one has the sizes of gpt-oss-20b in Qwen3's form: its activation, no biases and no sinks."""
DEVIATIONS = {
    Type.Q4_0: 4.6,
    Type.Q4_1: 4.6,
    Type.Q8_0: 74.0,
    Type.Q4_K: 268.0,
    Type.Q6_K: 18.5 * 74,
    Type.MXFP4: 2.9,
}
"""Type of blocks → deviation of weights whose scale is 1 and whose other bytes are random."""
FILE_TYPES = {
    "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
    "Q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
    "Q4_K_M": gguf.LlamaFileType.MOSTLY_Q4_K_M,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}
"""What a file says of its types; openvino_genai opens none that says nothing."""
ONE = 127
"""The exponent byte of MXFP4 that stands for 1."""


class Place(NamedTuple):
    """A tensor: its name, sizes and the type of its blocks.  In F32 are vectors, as norms, that have one
    `number`, and small matrices, as routers.
    """

    name: str
    axes: tuple[int, ...]
    type: Type
    number: float = 1.0

    @property
    def num_bytes(self) -> int:
        weights, size = gguf.GGML_QUANT_SIZES[self.type]
        return math.prod(self.axes) // weights * size


def mixture(name: str, shape: Shape) -> Callable[[str, int, int], Type]:
    """Which type llama.cpp gives a tensor of a file of type `name`, by the tensor's last name, layer and
    width; of MXFP4 are experts alone.
    """

    def wide(layer: int) -> bool:
        eighth = shape.layers // 8
        return layer < eighth or layer >= 7 * shape.layers // 8 or (layer - eighth) % 3 == 2

    def chosen(part: str, layer: int) -> Type:
        is_head = part == "output" or (part == "token_embd" and shape.is_tied)
        if name == "MXFP4":
            return Type.MXFP4 if part.endswith(EXPERTS) else Type.Q8_0
        if name != "Q8_0" and is_head:
            return Type.Q6_K
        if name == "Q4_K_M":
            return Type.Q6_K if part in FINE and wide(layer) else Type.Q4_K
        return Type[name]

    def possible(part: str, layer: int, width: int) -> Type:
        kind = chosen(part, layer)
        return kind if width % gguf.GGML_QUANT_SIZES[kind][0] == 0 else Type.Q8_0

    return possible


def places(shape: Shape, type_of: Callable[[str, int, int], Type]) -> Iterator[Place]:
    """The tensors of a file, in the order in which they are written."""

    def matrix(part: str, *axes: int, layer: int = -1) -> Place:
        at = f"blk.{layer}." if layer >= 0 else ""
        return Place(f"{at}{part}.weight", axes, type_of(part, layer, axes[-1]))

    yield matrix("token_embd", shape.tokens, shape.width)
    if not shape.is_tied:
        yield matrix("output", shape.tokens, shape.width)
    yield Place("output_norm.weight", (shape.width,), Type.F32)
    query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    kind, several = (EXPERTS, (shape.experts,)) if shape.experts else ("", ())
    for layer in range(shape.layers):
        norms = {"attn_norm": shape.width, "ffn_norm": shape.width}
        norms |= {"attn_q_norm": shape.head_size, "attn_k_norm": shape.head_size}
        for part, size in norms.items():
            yield Place(f"blk.{layer}.{part}.weight", (size,), Type.F32)
        yield matrix("attn_q", query, shape.width, layer=layer)
        yield matrix("attn_k", key, shape.width, layer=layer)
        yield matrix("attn_v", key, shape.width, layer=layer)
        yield matrix("attn_output", shape.width, query, layer=layer)
        if shape.experts:
            yield Place(f"blk.{layer}.ffn_gate_inp.weight", (shape.experts, shape.width), Type.F32)
        yield matrix(f"ffn_gate{kind}", *several, shape.inner, shape.width, layer=layer)
        yield matrix(f"ffn_up{kind}", *several, shape.inner, shape.width, layer=layer)
        yield matrix(f"ffn_down{kind}", *several, shape.width, shape.inner, layer=layer)


def random_blocks(rng: np.random.Generator, kind: Type, count: int, width: int) -> NDArray[np.uint8]:
    """uint8[count, bytes of a block]: weights with a deviation of about 1 / sqrt(`width`) and no mean."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    raw = np.frombuffer(rng.bytes(size * count), np.uint8).reshape(count, size).copy()
    scales = (rng.random(count, np.float32) + np.float32(0.5)) * np.float32(width**-0.5 / DEVIATIONS[kind])
    if kind == Type.Q6_K:  # a signed byte for each 16: none near 0, the largest -128, as quantizers choose it
        raw[:, 192:208] |= 64
        raw[:, 192] = 128
        raw[:, 208:] = _halves(scales)
        return raw
    if kind == Type.MXFP4:
        raw[:, 0] = np.round(np.log2(scales)).astype(np.int8) + ONE
        return raw
    raw[:, :2] = _halves(scales)
    if kind == Type.Q4_1:
        raw[:, 2:4] = _halves(scales * np.float32(-7.5))
    elif kind == Type.Q4_K:  # six bits each for scales and minima, the largest 63, as quantizers choose it
        raw[:, 2:4] = _halves(scales * np.float32(7.5))
        raw[:, [4, 8]] |= 63
    return raw


def _halves(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return values.astype(np.float16)[:, None].view(np.uint8)


def vocabulary(size: int) -> tuple[list[str], list[int], list[str]]:
    """(tokens, kinds, merges): `size` byte-level texts, the last of which end replies."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = product(letters, letters)
    triples = ((left + right, third) for left, right, third in product(letters, letters, letters))
    merged = list(islice(chain(pairs, triples), size - BYTES - len(ENDS)))
    tokens = [*letters, *map("".join, merged), *ENDS]
    kinds = [gguf.TokenType.NORMAL] * (size - len(ENDS)) + [gguf.TokenType.CONTROL] * len(ENDS)
    return tokens, kinds, [" ".join(each) for each in merged]


def write(path: Path, shape: Shape, type_name: str, seed: int = 0) -> None:
    """Write the file `path`; of its weights one piece is in memory at a time."""
    writer = gguf.GGUFWriter(path, "qwen3moe" if shape.experts else "qwen3")
    add_settings(writer, shape, type_name)
    write_tensors(path, writer, list(places(shape, mixture(type_name, shape))), seed)


def write_tensors(path: Path, writer: gguf.GGUFWriter, tensors: list[Place], seed: int) -> None:
    """Close `writer`, of the file `path`, and write random `tensors` behind what it has."""
    for tensor in tensors:
        weights, size = gguf.GGML_QUANT_SIZES[tensor.type]
        *axes, width = tensor.axes
        if tensor.type == Type.F32:
            writer.add_tensor_info(tensor.name, tensor.axes, np.dtype(np.float32), tensor.num_bytes)
            continue
        axes.append(width // weights * size)
        writer.add_tensor_info(tensor.name, axes, np.dtype(np.uint8), tensor.num_bytes, raw_dtype=tensor.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    rng = np.random.default_rng(seed)
    with path.open("ab") as file:
        for tensor in tensors:
            file.write(bytes(-file.seek(0, 2) % writer.data_alignment))
            for piece in _pieces(rng, tensor):
                file.write(piece)


def _pieces(rng: np.random.Generator, tensor: Place) -> Iterator[bytes]:
    width = tensor.axes[-1]
    if tensor.type == Type.F32:
        is_matrix = len(tensor.axes) > 1
        normal = rng.standard_normal(tensor.axes, np.float32) * np.float32(width**-0.5)
        yield (normal if is_matrix else np.full_like(normal, tensor.number)).tobytes()
        return
    count = math.prod(tensor.axes) // gguf.GGML_QUANT_SIZES[tensor.type][0]
    for begin in range(0, count, PIECE_BLOCKS):
        yield random_blocks(rng, tensor.type, min(PIECE_BLOCKS, count - begin), width).tobytes()


def add_settings(writer: gguf.GGUFWriter, shape: Shape, type_name: str) -> None:
    """Say the sizes of a shape, and a tokenizer and a chat template."""
    if type_name in FILE_TYPES:
        writer.add_file_type(FILE_TYPES[type_name])
    writer.add_block_count(shape.layers)
    writer.add_context_length(40_960)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.used)
        writer.add_expert_feed_forward_length(shape.inner)
    tokens, kinds, merges = vocabulary(shape.tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(shape.tokens - 1)
    writer.add_eos_token_id(shape.tokens - len(ENDS))
    writer.add_pad_token_id(shape.tokens - 1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--shape", type=click.Choice(list(SHAPES)), default="qwen3-0.6b", show_default=True)
@click.option(
    "--type",
    "type_name",
    type=click.Choice(["Q4_0", "Q4_1", "Q4_K_M", "Q4_K", "Q6_K", "Q8_0", "MXFP4"]),
    default="Q4_0",
)
@click.option("--layers", type=int, help="As many layers instead of the shape's.")
@click.option("--tokens", type=int, help="A vocabulary of this size instead of the shape's.")
def main(file: Path, shape: str, type_name: str, layers: int | None, tokens: int | None) -> None:
    """Write FILE, of a real model's shape and with the types of its tensors as llama.cpp chooses them."""
    chosen = SHAPES[shape]
    write(file, replace(chosen, layers=layers or chosen.layers, tokens=tokens or chosen.tokens), type_name)


if __name__ == "__main__":
    main()
