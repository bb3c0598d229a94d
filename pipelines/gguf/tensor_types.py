"""The types of GGUF tensors: which are read, their sizes, and the codes that they become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.gguf import block_readers, codebook_readers, few_bit_readers, grid_readers
from pipelines.gguf.blocks import SUPER, Bytes, Floats, Parts

__all__ = ["OTHER_TYPES", "TENSOR_TYPES", "Bytes", "Floats", "Parts", "TensorType"]


@dataclass(frozen=True)
class TensorType:
    """`bytes` hold `weights` weights.  Quantized types have codes of `bits`, `block` of them to a scale, and
    `read`, from uint8[rows, groups, bytes]; float types have a numpy `dtype` of the same bytes.
    """

    name: str
    weights: int
    bytes: int
    bits: int = 0
    block: int = 0
    read: Callable[[Bytes], Parts] | None = None
    has_zeros: bool = False


TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18, 4, 32, block_readers.read_q4_0),
    3: TensorType("Q4_1", 32, 20, 4, 32, block_readers.read_q4_1, has_zeros=True),
    6: TensorType("Q5_0", 32, 22, 8, 32, block_readers.read_q5_0),
    7: TensorType("Q5_1", 32, 24, 8, 32, block_readers.read_q5_1, has_zeros=True),
    8: TensorType("Q8_0", 32, 34, 8, 32, block_readers.read_q8_0),
    10: TensorType("Q2_K", SUPER, 84, 4, 16, few_bit_readers.read_q2_k, has_zeros=True),
    11: TensorType("Q3_K", SUPER, 110, 4, 16, few_bit_readers.read_q3_k),
    12: TensorType("Q4_K", SUPER, 144, 4, 32, block_readers.read_q4_k, has_zeros=True),
    13: TensorType("Q5_K", SUPER, 176, 8, 32, block_readers.read_q5_k, has_zeros=True),
    14: TensorType("Q6_K", SUPER, 210, 8, 16, block_readers.read_q6_k),
    16: TensorType("IQ2_XXS", SUPER, 66, 8, 32, grid_readers.read_iq2_xxs),
    17: TensorType("IQ2_XS", SUPER, 74, 8, 16, grid_readers.read_iq2_xs),
    18: TensorType("IQ3_XXS", SUPER, 98, 8, 32, grid_readers.read_iq3_xxs),
    19: TensorType("IQ1_S", SUPER, 50, 8, 32, grid_readers.read_iq1_s),
    20: TensorType("IQ4_NL", 32, 18, 8, 32, codebook_readers.read_iq4_nl),
    21: TensorType("IQ3_S", SUPER, 110, 8, 32, grid_readers.read_iq3_s),
    22: TensorType("IQ2_S", SUPER, 82, 8, 16, grid_readers.read_iq2_s),
    23: TensorType("IQ4_XS", SUPER, 136, 8, 32, codebook_readers.read_iq4_xs),
    29: TensorType("IQ1_M", SUPER, 56, 8, 16, grid_readers.read_iq1_m),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", SUPER, 54, 4, SUPER, few_bit_readers.read_tq1_0),
    35: TensorType("TQ2_0", SUPER, 66, 4, SUPER, few_bit_readers.read_tq2_0),
    39: TensorType("MXFP4", 32, 17, 8, 32, codebook_readers.read_mxfp4),
    40: TensorType("NVFP4", 64, 36, 8, 16, codebook_readers.read_nvfp4),
    41: TensorType("Q1_0", 128, 18, 4, 128, few_bit_readers.read_q1_0),
    42: TensorType("Q2_0", 64, 18, 4, 64, few_bit_readers.read_q2_0),
}
"""Number of a type in the file → the type."""
TYPE_NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
PACKED_TYPES: dict[str, int | None] = {
    **dict.fromkeys(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K"), 0),
    "Q6_K": 208,
    "MXFP4": None,
}
"""Types whose blocks the CPU kernels take as they are → where in a block the float16 of its scales is, None
where there is none; that of least weights is behind it.
"""
OTHER_TYPES = {15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64"}
"""Number → name of types that are not served, for messages."""
