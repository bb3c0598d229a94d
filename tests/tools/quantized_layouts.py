"""Weights of each layout that quantizers write, packed by hand, with what they mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

OUTER, INNER, GROUP = 16, 64, 32
RNG = np.random.default_rng(3)
CODES = torch.from_numpy(RNG.integers(0, 16, (OUTER, INNER)))
SCALES = torch.from_numpy(RNG.random((OUTER, INNER // GROUP)).astype(np.float32) + 0.1)
ZEROS = torch.from_numpy(RNG.integers(1, 16, (OUTER, INNER // GROUP)))
AWQ_COLUMNS = [0, 2, 4, 6, 1, 3, 5, 7]  # the column whose code is n-th in a word


def words(codes: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Codes along the last axis, the first in the lowest bits → int32."""
    grouped = codes.reshape(*codes.shape[:-1], -1, 32 // bits).numpy().astype(np.uint32)
    packed = sum(grouped[..., place] << np.uint32(bits * place) for place in range(32 // bits))
    return torch.from_numpy(packed.view(np.int32))


def in_awq_order(codes: torch.Tensor) -> torch.Tensor:
    return codes.reshape(codes.shape[0], -1, 8)[:, :, AWQ_COLUMNS].flatten(1)


def by_group(small: torch.Tensor) -> torch.Tensor:
    return small.repeat_interleave(GROUP, 1)


ASYMMETRIC = (CODES - by_group(ZEROS)) * by_group(SCALES)
SHUFFLED = torch.from_numpy(RNG.permutation(INNER) // GROUP)
FLOAT8 = torch.from_numpy(RNG.normal(size=(OUTER, INNER)).astype(np.float32)).to(torch.float8_e4m3fn)
BLOCK_SCALES = torch.tensor([[0.5, 2.0, 3.0, 0.25]])
TABLE = torch.linspace(-1, 1, 16)
LARGEST = torch.from_numpy(RNG.random(OUTER * INNER // 64).astype(np.float32) + 0.5)
STATE = torch.frombuffer(
    bytearray(json.dumps({"shape": [OUTER, INNER], "blocksize": 64}).encode()), dtype=torch.uint8
)
FLAT = CODES.flatten()

CASES: dict[str, tuple[dict[str, Any], dict[str, torch.Tensor], torch.Tensor]] = {
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP},
        {"qweight": words(CODES).T, "qzeros": words((ZEROS - 1).T), "scales": SCALES.T},
        ASYMMETRIC,
    ),
    "gptq, act order": (
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True},
        {"qweight": words(CODES).T, "qzeros": words((ZEROS - 1).T), "scales": SCALES.T, "g_idx": SHUFFLED},
        (CODES - ZEROS[:, SHUFFLED]) * SCALES[:, SHUFFLED],
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "version": "gemm"},
        {
            "qweight": words(in_awq_order(CODES.T)),
            "qzeros": words(in_awq_order(ZEROS.T)),
            "scales": SCALES.T,
        },
        ASYMMETRIC,
    ),
    "fp8": (
        {"quant_method": "fp8", "weight_block_size": [16, 16]},
        {"weight": FLOAT8, "weight_scale_inv": BLOCK_SCALES},
        FLOAT8.float() * BLOCK_SCALES.repeat_interleave(16, 1),
    ),
    "compressed-tensors, packed": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized"},
        {
            "weight_packed": words(CODES),
            "weight_shape": torch.tensor([OUTER, INNER]),
            "weight_scale": SCALES,
            "weight_zero_point": words(ZEROS.T).T,
        },
        ASYMMETRIC,
    ),
    "compressed-tensors, fp8": (
        {"quant_method": "compressed-tensors", "format": "float-quantized"},
        {"weight": FLOAT8, "weight_scale": SCALES[:, :1], "input_scale": torch.ones(1)},
        FLOAT8.float() * SCALES[:, :1],
    ),
    "bitsandbytes, nf4": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {
            "weight": (FLAT[::2] << 4 | FLAT[1::2]).to(torch.uint8)[:, None],
            "weight.absmax": LARGEST,
            "weight.quant_map": TABLE,
            "weight.quant_state.bitsandbytes__nf4": STATE,
        },
        (TABLE[FLAT] * LARGEST.repeat_interleave(64)).view(OUTER, INNER),
    ),
    "bitsandbytes, int8": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        {"weight": (CODES - 8).to(torch.int8), "SCB": SCALES[:, 0]},
        (CODES - 8) * SCALES[:, :1] / 127,
    ),
}
