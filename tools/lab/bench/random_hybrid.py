"""`python -m tools.lab.bench.random_hybrid FILE`: random weights of Qwen3.5's kind, to measure speed with.

Three layers of four are delta nets, which have a state in place of keys and values; names, sizes and types of
tensors are those of llama.cpp's converter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import gguf
from gguf import GGMLQuantizationType as Type

from tools.lab.bench.random_gguf import Place, Shape, add_settings, mixture, write_tensors


@dataclass(frozen=True)
class HybridShape(Shape):
    """Sizes of a decoder of which each `every`-th layer attends to all tokens and the others are delta nets,
    with `key_heads` and `value_heads` of `net_size` numbers behind a convolution of `kernel` tokens.
    """

    key_heads: int = 16
    value_heads: int = 32
    net_size: int = 128
    kernel: int = 4
    every: int = 4

    def is_recurrent(self, layer: int) -> bool:
        return (layer + 1) % self.every != 0


QWEN35_4B = HybridShape(32, 2560, 9216, heads=16, kv_heads=4, head_size=256, tokens=248_320)


def hybrid_places(shape: HybridShape, type_name: str) -> Iterator[Place]:
    """The tensors of a file, in the order in which they are written."""
    type_of = mixture(type_name, shape)
    width, inner = shape.width, shape.inner

    def matrix(part: str, rows: int, columns: int, layer: int = -1) -> Place:
        at = f"blk.{layer}." if layer >= 0 else ""
        return Place(f"{at}{part}.weight", (rows, columns), type_of(part, layer, columns))

    yield matrix("token_embd", shape.tokens, width)
    yield Place("output_norm.weight", (width,), Type.F32)
    for layer in range(shape.layers):
        for part in ("attn_norm", "post_attention_norm"):
            yield Place(f"blk.{layer}.{part}.weight", (width,), Type.F32)
        matrices = _net(shape) if shape.is_recurrent(layer) else _attention(shape)
        feed = {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        for part, (rows, columns) in (matrices | feed).items():
            yield matrix(part, rows, columns, layer)
        yield from _floats(shape, layer)


def _attention(shape: HybridShape) -> dict[str, tuple[int, int]]:
    query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    sizes = {"attn_q": (2 * query, shape.width), "attn_k": (key, shape.width), "attn_v": (key, shape.width)}
    return sizes | {"attn_output": (shape.width, query)}


def _net(shape: HybridShape) -> dict[str, tuple[int, int]]:
    values = shape.value_heads * shape.net_size
    sizes = {"attn_qkv": (_channels(shape), shape.width), "attn_gate": (values, shape.width)}
    sizes |= dict.fromkeys(("ssm_beta", "ssm_alpha"), (shape.value_heads, shape.width))
    return sizes | {"ssm_out": (shape.width, values)}


def _channels(shape: HybridShape) -> int:
    return (2 * shape.key_heads + shape.value_heads) * shape.net_size


def _floats(shape: HybridShape, layer: int) -> Iterator[Place]:
    """What a layer has beside its linear layers; decays are below 0, so that states do not grow."""
    at = f"blk.{layer}."
    if not shape.is_recurrent(layer):
        for part in ("attn_q_norm", "attn_k_norm"):
            yield Place(f"{at}{part}.weight", (shape.head_size,), Type.F32)
        return
    yield Place(f"{at}ssm_conv1d.weight", (_channels(shape), shape.kernel), Type.F32)
    yield Place(f"{at}ssm_dt.bias", (shape.value_heads,), Type.F32, 0.0)
    yield Place(f"{at}ssm_a", (shape.value_heads,), Type.F32, -1.0)
    yield Place(f"{at}ssm_norm.weight", (shape.net_size,), Type.F32)


def write_hybrid(path: Path, shape: HybridShape, type_name: str, seed: int = 0) -> None:
    """Write the file `path`; of its weights one piece is in memory at a time."""
    writer = gguf.GGUFWriter(path, "qwen35")
    add_settings(writer, shape, type_name)
    writer.add_ssm_conv_kernel(shape.kernel)
    writer.add_ssm_inner_size(shape.value_heads * shape.net_size)
    writer.add_ssm_state_size(shape.net_size)
    writer.add_ssm_time_step_rank(shape.value_heads)
    writer.add_ssm_group_count(shape.key_heads)
    writer.add_full_attention_interval(shape.every)
    quarter = shape.head_size // 4
    writer.add_rope_dimension_count(quarter)
    writer.add_rope_dimension_sections([quarter // 2 - 2 * (quarter // 6), quarter // 6, quarter // 6, 0])
    write_tensors(path, writer, list(hybrid_places(shape, type_name)), seed)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--type", "type_name", type=click.Choice(["Q4_0", "Q4_K_M", "Q8_0"]), default="Q4_0")
@click.option("--layers", type=int, default=QWEN35_4B.layers, show_default=True)
@click.option("--tokens", type=int, default=QWEN35_4B.tokens, show_default=True, help="Of the vocabulary.")
def main(file: Path, type_name: str, layers: int, tokens: int) -> None:
    """Write FILE, of the shape of Qwen3.5-4B."""
    write_hybrid(file, replace(QWEN35_4B, layers=layers, tokens=tokens), type_name)


if __name__ == "__main__":
    main()
