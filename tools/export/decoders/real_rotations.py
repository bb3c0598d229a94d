"""Rotary positions of models that rotate by complex numbers, which ONNX does not have."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

FUNCTION = "apply_rotary_emb"
AXES = {"DeepseekV2RotaryEmbedding": 1, "Llama4TextRotaryEmbedding": 2}
"""Classes that give angles as complex numbers, and the axis of heads in what they rotate."""

Positions = list[torch.Tensor]
"""The positions of the tokens of a run, at its end."""


def replace_rotations(model: torch.nn.Module) -> None:
    """Let such models give cosines and sines, and scale queries by the positions that a step has.

    Llama 4 scales the queries of layers without rotary positions by the place of a token in its call, which
    in a step of several sequences is not its position.
    """
    positions: Positions = []
    for module in model.modules():
        if type(module).__name__ in AXES:
            module.forward = partial(_angles, module, positions)
    for layer in _layers_with_tuned_queries(model):
        layer.attn_temperature_tuning = False
        layer.q_proj.register_forward_hook(partial(_tuned, layer, positions))


@contextlib.contextmanager
def real_rotations(model: torch.nn.Module) -> Iterator[None]:
    """A context in which such a model rotates by cosines and sines."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if (axis := AXES.get(type(module).__name__)) is not None:
                file = sys.modules[type(module).__module__]
                stack.callback(setattr, file, FUNCTION, getattr(file, FUNCTION))
                setattr(file, FUNCTION, partial(_rotated, axis))
        yield


def _layers_with_tuned_queries(model: torch.nn.Module) -> Iterator[Any]:
    for module in model.modules():
        if getattr(module, "attn_temperature_tuning", False) and not getattr(module, "use_rope", True):
            yield module


def _angles(module: Any, positions: Positions, _: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
    """Cosines and sines float32[1, tokens, size / 2, 2]."""
    positions[:] = [position_ids]
    angles = position_ids[..., None].float() * module.inv_freq
    return torch.stack((angles.cos(), angles.sin()), -1) * module.attention_scaling


def _tuned(layer: Any, positions: Positions, _: Any, __: Any, queries: torch.Tensor) -> torch.Tensor:
    """Queries [1, tokens, heads · size], scaled by the logarithm of how far their positions are."""
    steps = torch.floor((positions[-1].float() + 1.0) / layer.floor_scale)
    return (queries * (torch.log1p(steps) * layer.attn_scale + 1.0)[..., None]).to(queries.dtype)


def _rotated(
    axis: int, query: torch.Tensor, key: torch.Tensor, angles: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    cosines, sines = angles.unsqueeze(axis).unbind(-1)
    return tuple(_turned(rows, cosines, sines) for rows in (query, key))


def _turned(rows: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """`rows`, whose numbers are pairs behind one another, turned by angles."""
    x, y = rows.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((x * cosines - y * sines, x * sines + y * cosines), -1)
    return turned.flatten(-2).to(rows.dtype)
