"""The arithmetic of quantized checkpoints: codes, scales and zero points of a linear layer → its weight."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tools.export.base.folder import ExportError

Parts = dict[str, torch.Tensor]
"""Part of a linear layer → its tensor."""
Settings = Mapping[str, Any]
"""The `quantization_config` of a checkpoint."""

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place of the n-th column's code within 32 bits."""
WORD = 32  # bits


@dataclass(frozen=True)
class Scheme:
    """A way to store weights: the parts of a layer, those that mark one, and what gives its weight."""

    parts: tuple[str, ...]
    markers: tuple[str, ...]
    undo: Callable[[str, Parts, Settings], torch.Tensor]


def _unpack(words: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """int32 words → the codes in them, the lowest bits first, along `axis`."""
    moved = words.movedim(axis, -1).to(torch.int64)
    shifts = torch.arange(0, WORD, bits)
    codes = (moved[..., None] >> shifts) & ((1 << bits) - 1)
    return codes.flatten(-2).movedim(-1, axis)


def _bits(module: str, settings: Settings, name: str = "bits", allowed: tuple[int, ...] = (2, 4, 8)) -> int:
    bits = settings.get(name)
    if bits not in allowed:
        raise ExportError(
            f"{module} has codes of {bits} bits; Braid dequantizes {', '.join(map(str, allowed))}"
        )
    return int(bits)


def _gptq(module: str, parts: Parts, settings: Settings) -> torch.Tensor:
    """qweight [inner/word, outer], qzeros [groups, outer/word], scales [groups, outer], g_idx [inner]."""
    bits = _bits(module, settings)
    codes, zeros = _unpack(parts["qweight"], bits, 0), _unpack(parts["qzeros"], bits, 1)
    if settings.get("checkpoint_format", "gptq") == "gptq":  # which stores zero points minus one
        zeros = (zeros + 1) & ((1 << bits) - 1)
    inner = codes.shape[0]
    groups = parts.get("g_idx")
    if groups is None:
        groups = torch.arange(inner) // (inner // parts["scales"].shape[0])
    groups = groups.to(torch.int64)
    return ((codes - zeros[groups]) * parts["scales"].float()[groups]).T


def _awq(module: str, parts: Parts, settings: Settings) -> torch.Tensor:
    """qweight [inner, outer/8], qzeros [groups, outer/8], scales [groups, outer]."""
    bits = _bits(module, settings, allowed=(4,))
    if str(settings.get("version", "gemm")).lower() != "gemm":
        raise ExportError(f"{module} is packed as {settings['version']} of AWQ; Braid dequantizes gemm")
    codes, zeros = (_in_awq_order(_unpack(parts[name], bits, 1)) for name in ("qweight", "qzeros"))
    size = codes.shape[0] // parts["scales"].shape[0]
    zeros, scales = (each.repeat_interleave(size, 0) for each in (zeros, parts["scales"].float()))
    return ((codes - zeros) * scales).T


def _in_awq_order(codes: torch.Tensor) -> torch.Tensor:
    return codes.view(codes.shape[0], -1, len(AWQ_ORDER))[:, :, list(AWQ_ORDER)].flatten(1)


def _fp8(module: str, parts: Parts, settings: Settings) -> torch.Tensor:
    """weight in 8-bit floats, weight_scale_inv [outer / block, inner / block] to multiply it with."""
    scales = parts["weight_scale_inv"]
    rows, columns = settings.get("weight_block_size") or parts["weight"].shape
    return _times_blocks(parts["weight"], scales.reshape(-1, 1) if scales.ndim < 2 else scales, rows, columns)


def _times_blocks(weight: torch.Tensor, scales: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    outer, inner = weight.shape
    spread = scales.float().repeat_interleave(rows, 0)[:outer].repeat_interleave(columns, 1)[:, :inner]
    return weight.float() * spread


def _compressed(module: str, parts: Parts, settings: Settings) -> torch.Tensor:
    """compressed-tensors: `weight`, or `weight_packed` in words, with weight_scale and weight_zero_point."""
    if "weight_global_scale" in parts:
        raise ExportError(f"{module} has nvfp4 weights, which Braid cannot dequantize")
    scales = parts["weight_scale"].float()
    zeros = parts.get("weight_zero_point")
    codes = parts.get("weight")
    if codes is None:
        outer, inner = (int(length) for length in parts["weight_shape"])
        bits = WORD // -(-inner // parts["weight_packed"].shape[1])
        codes = _unpack(parts["weight_packed"], bits, 1)[:outer, :inner] - (1 << (bits - 1))
        if zeros is not None and zeros.dtype == torch.int32 and zeros.shape[0] != outer:
            zeros = _unpack(zeros, bits, 0)[:outer] - (1 << (bits - 1))
    outer, inner = codes.shape
    scales = scales.reshape(1, 1) if scales.numel() == 1 else scales.reshape(scales.shape[0], -1)
    rows, columns = -(-outer // scales.shape[0]), -(-inner // scales.shape[1])
    values = codes.float()
    if zeros is not None:
        values = values - _spread(zeros.reshape(scales.shape).float(), rows, columns, codes, parts)
    return values * _spread(scales, rows, columns, codes, parts)


def _spread(small: torch.Tensor, rows: int, columns: int, codes: torch.Tensor, parts: Parts) -> torch.Tensor:
    """One number for each code, from one for each group of columns."""
    outer, inner = codes.shape
    tall = small.repeat_interleave(rows, 0)[:outer]
    if (groups := parts.get("weight_g_idx")) is not None and int(groups[0]) >= 0:
        return tall[:, groups.to(torch.int64)]
    return tall.repeat_interleave(columns, 1)[:, :inner]


def _bitsandbytes(module: str, parts: Parts, settings: Settings) -> torch.Tensor:
    """Rows of int8 with SCB, or 4-bit codes, two to a byte, of a table, in blocks with absmax."""
    if "SCB" in parts:
        return parts["weight"].float() * parts["SCB"].float()[:, None] / 127
    state = json.loads(bytes(next(parts[name] for name in BNB_STATES if name in parts).tolist()))
    packed = parts["weight"].flatten().to(torch.int64)
    codes = torch.stack([packed >> 4, packed & 15], 1).flatten()
    largest = parts["weight.absmax"]
    if "weight.nested_absmax" in parts:
        inner = parts["weight.nested_quant_map"].float()[largest.to(torch.int64)]
        outer = parts["weight.nested_absmax"].float().repeat_interleave(int(state["nested_blocksize"]))
        largest = inner * outer[: len(inner)] + float(state["nested_offset"])
    values = parts["weight.quant_map"].float()[codes]
    scales = largest.float().repeat_interleave(int(state["blocksize"]))[: len(values)]
    return (values * scales).view(*state["shape"])


BNB_STATES = ("weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4")
SCHEMES = {
    "gptq": Scheme(("qweight", "qzeros", "scales", "g_idx"), ("qweight",), _gptq),
    "awq": Scheme(("qweight", "qzeros", "scales"), ("qweight",), _awq),
    "fp8": Scheme(("weight", "weight_scale_inv", "activation_scale"), ("weight_scale_inv",), _fp8),
    "compressed-tensors": Scheme(
        (
            *("weight", "weight_packed", "weight_shape", "weight_scale", "weight_zero_point"),
            *("weight_g_idx", "weight_global_scale", "input_scale", "input_global_scale", "input_zero_point"),
        ),
        ("weight_scale",),
        _compressed,
    ),
    "bitsandbytes": Scheme(
        (
            *("weight", "SCB", "weight_format", "weight.absmax", "weight.quant_map", *BNB_STATES),
            *("weight.nested_absmax", "weight.nested_quant_map"),
        ),
        ("SCB", "weight.absmax"),
        _bitsandbytes,
    ),
}
"""`quant_method` → how its layers are stored."""
