"""What recurrent layers compute of the tokens before: functions that are Braid's abstract nodes in a trace.

Outside of one they compute what `recurrent_format` says in float32, token by token, for sequences that begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from pipelines.onnx_format.decoder_format import DOMAIN, VERSION
from pipelines.onnx_format.recurrent_format import DELTA_NET, MAMBA2, NUMBER, SHORT_CONV


def short_conv(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, state: int
) -> torch.Tensor:
    """rows [sequences, tokens, channels], weight [channels, 1, kernel], bias [channels] → as `rows`."""
    channels, _, kernel = weight.shape
    if torch.compiler.is_exporting():
        constants = (weight,) if bias is None else (weight, bias)
        return _node(SHORT_CONV, (rows, *constants), rows.shape, state, channels=channels, kernel=kernel)
    padded = torch.nn.functional.pad(rows.float().transpose(1, 2), (kernel - 1, 0))
    mixed = torch.nn.functional.conv1d(padded, weight, bias, groups=channels)
    return mixed.transpose(1, 2).to(rows.dtype)


def delta_net(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    epsilon: float,
    state: int,
) -> torch.Tensor:
    """query, key [sequences, tokens, key heads, size], value [sequences, tokens, value heads, size], decay,
    beta [sequences, tokens, value heads] → as `value`.
    """
    sizes = {"key_heads": key.shape[2], "key_size": key.shape[3]}
    sizes |= {"value_heads": value.shape[2], "value_size": value.shape[3]}
    if torch.compiler.is_exporting():
        rows = (query, key, value, decay, beta)
        return _node(DELTA_NET, rows, value.shape, state, **sizes, epsilon=epsilon)
    times = value.shape[2] // key.shape[2]
    query, key = (_unit(rows.float(), epsilon).repeat_interleave(times, 2) for rows in (query, key))
    memory = value.new_zeros(len(value), *value.shape[2:], key.shape[3], dtype=torch.float32)
    mixed = []
    for q, k, v, g, b in _tokens(query, key, value, decay, beta):
        memory = memory * g.exp()[..., None, None]
        missing = (v - (memory @ k[..., None])[..., 0]) * b[..., None]
        memory = memory + missing[..., None] * k[..., None, :]
        mixed.append((memory @ q[..., None])[..., 0] * key.shape[3] ** -0.5)
    return torch.stack(mixed, 1).to(value.dtype)


def mamba2(
    values: torch.Tensor,
    steps: torch.Tensor,
    written: torch.Tensor,
    read: torch.Tensor,
    decay: torch.Tensor,
    state: int,
) -> torch.Tensor:
    """values [sequences, tokens, heads, size], steps [sequences, tokens, heads], written and read [sequences,
    tokens, groups, state size], decay [heads] → as `values`.
    """
    sizes = {"heads": values.shape[2], "head_size": values.shape[3]}
    sizes |= {"groups": read.shape[2], "state_size": read.shape[3]}
    if torch.compiler.is_exporting():
        return _node(MAMBA2, (values, steps, written, read, decay), values.shape, state, **sizes)
    times = values.shape[2] // read.shape[2]
    written, read = (rows.float().repeat_interleave(times, 2) for rows in (written, read))
    memory = values.new_zeros(len(values), *values.shape[2:], read.shape[3], dtype=torch.float32)
    mixed = []
    for x, step, w, r in _tokens(values, steps, written, read):
        added = (step[..., None] * x)[..., None] * w[..., None, :]
        memory = memory * (decay * step).exp()[..., None, None] + added
        mixed.append((memory @ r[..., None])[..., 0])
    return torch.stack(mixed, 1).to(values.dtype)


def _tokens(*rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The float32 values of one token of all sequences after the other."""
    return zip(*(values.float().unbind(1) for values in rows), strict=True)


def _unit(rows: torch.Tensor, epsilon: float) -> torch.Tensor:
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + epsilon)


def _node(
    kind: str, inputs: tuple[torch.Tensor, ...], shape: torch.Size, state: int, **attributes: Any
) -> torch.Tensor:
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::{kind}",
        inputs,
        {NUMBER: state, **attributes},
        dtype=inputs[0].dtype,
        shape=shape,
        version=VERSION,
    )
