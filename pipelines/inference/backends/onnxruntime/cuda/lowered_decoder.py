"""A lowered decoder: a serialized graph and the properties that a GPU session needs.

It is plain data, so that a graph lowered on one machine can run on another without ONNX tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pipelines.onnx_format.decoder_format import AttentionLayer


class CacheElement(NamedTuple):
    """A type of elements of pools: its number in ONNX (TensorProto.DataType), and its bytes."""

    number: int
    num_bytes: int


ELEMENTS = {
    "f32": CacheElement(1, 4),
    "f16": CacheElement(10, 2),
    "bf16": CacheElement(16, 2),
    "i8": CacheElement(3, 1),
    "f8": CacheElement(17, 1),  # float8e4m3fn
}
QUANTIZED_RANGE = {"i8": 127.0, "f8": 448.0}
"""The largest magnitude that a quantized cache type stores; the kernel clamps larger ones."""


class LoraLinear(NamedTuple):
    """A linear layer that adapters may change, from rows of `size_in` numbers to rows of `size_out`.

    `element`, a key of `ELEMENTS`, is the type in which the model computes it, and its adapters.
    """

    name: str
    size_in: int
    size_out: int
    element: str


@dataclass(frozen=True)
class LoweredDecoder:
    """`model`: a graph whose inputs are `onnxruntime.step_input_names`, with its weights in files of
    `folder`.

    `kv_cache` is a key of `ELEMENTS`.  `gathers`: prompt chunks copy the whole context of all their sequences
    into one buffer, as over a quantized cache.  `uncapturable`: operators of the graph that a CUDA graph
    would not replay correctly.  `adapted`: linear layers with room for adapters.  `state_shapes`: of one
    sequence's recurrent states.
    """

    model: bytes
    folder: Path
    layers: tuple[AttentionLayer, ...]
    vocab_size: int
    max_context: int
    element_type: str  # of activations
    block_tokens: int
    kv_cache: str
    gathers: bool = False
    uncapturable: tuple[str, ...] = ()
    adapted: tuple[LoraLinear, ...] = ()
    state_shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def element(self) -> CacheElement:
        return ELEMENTS[self.kv_cache]
