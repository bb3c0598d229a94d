"""Replaces the attention of transformers' models during export: observes it, then writes an abstract node."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from pipelines.onnx_format.decoder_format import ATTENTION, DOMAIN, VERSION
from tools.export.base.folder import ExportError

NAME = "braid_paged"
"""Name of the attention in transformers' tables during an export."""

EVERYTHING = -1  # of a window
SINKS = ("s_aux", "sinks")
"""Arguments by which families pass sinks to attention."""
SLOPES = "slopes"
"""The argument by which `own_attention` passes the slopes of ALiBi."""
INEXPRESSIBLE = {
    "head_mask": "a mask per head",
    "position_bias": "a bias of positions on its scores",
}
"""Arguments that some families pass to attention and that the node does not support."""


MaskFunction = Callable[..., torch.Tensor]
"""transformers': (batch, head, query, key) indexes → whether the query sees the key."""


@dataclass(frozen=True)
class Layer:
    """One layer's attention: the attributes of its node, and the largest key and value observed."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    window: int
    softcap: float
    key_absmax: float = 0.0
    value_absmax: float = 0.0

    def attributes(self, layer: int) -> dict[str, int | float]:
        """The attributes of the node of layer `layer`."""
        return {"layer": layer, **{name: getattr(self, name) for name in self.__dataclass_fields__}}


@dataclass(frozen=True)
class Seen:
    """A placeholder for a mask in which every query attends to its last `window` tokens, including itself;
    None is a mask of another form.
    """

    window: int | None


class ByHead(NamedTuple):
    """What the node may have for each head, [heads]: the score of a sink, and the slope of ALiBi."""

    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None


NOTHING = ByHead()


class Mode(enum.Enum):
    """What the attention does in a call."""

    WATCH = enum.auto()
    """Record the layer's attributes, and compute attention."""
    ALONE = enum.auto()
    """Let every token attend to itself only."""
    TRACE = enum.auto()
    """Write the abstract node to the graph."""


@dataclass
class Attention:
    """Observes a model's layers in an eager run, in order; then writes them as nodes while it is traced.

    Every layer is called once per run, with the same attributes in all runs.
    """

    layers: list[Layer] = field(default_factory=list)
    mode: Mode = Mode.WATCH
    _calls: int = 0

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """A context for one run of the model."""
        self._calls = 0
        yield
        if self._calls != len(self.layers):
            raise ExportError(f"{self._calls} attentions ran where {len(self.layers)} were expected")

    def __call__(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any,
        scaling: float | None = None,
        softcap: float | None = None,
        **others: Any,
    ) -> tuple[torch.Tensor, None]:
        """transformers' attention: query [1, heads, tokens, size] → attended [1, tokens, heads, size].

        Values that are smaller than keys, as in latent attention, get zeros: a cache has one size.
        """
        if (missing := key.shape[3] - value.shape[3]) > 0:
            wide = torch.nn.functional.pad(value, (0, missing))
            attended, _ = self(module, query, key, wide, attention_mask, scaling, softcap, **others)
            return attended[..., : value.shape[3]], None
        attended = self._attend(module, query, key, value, attention_mask, scaling, softcap, others)
        return attended.transpose(1, 2).contiguous(), None  # some models take a view of it

    def _attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any,
        scaling: float | None,
        softcap: float | None,
        others: dict[str, Any],
    ) -> torch.Tensor:
        """What the next layer of this run gives: [1, heads, tokens, size]."""
        layer, self._calls = self._calls, self._calls + 1
        if self.mode is Mode.ALONE:
            return value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        sinks = next((others[name] for name in SINKS if others.get(name) is not None), None)
        by_head = ByHead(sinks, others.get(SLOPES))
        if self.mode is Mode.TRACE:
            return _node(query, key, value, by_head, self.layers[layer].attributes(layer))
        _refuse(module, query, key, value, attention_mask, others)
        scale = float(scaling if scaling is not None else query.shape[-1] ** -0.5)
        self._watch(layer, _layer(query, key, value, scale, attention_mask.window, float(softcap or 0.0)))
        return attend(query, key, value, self.layers[layer], by_head)

    def _watch(self, layer: int, now: Layer) -> None:
        if layer == len(self.layers):
            self.layers.append(now)
        before = self.layers[layer]
        if now != replace(before, key_absmax=now.key_absmax, value_absmax=now.value_absmax):
            raise ExportError(f"the attention of layer {layer} changes with the prompt: {before}, {now}")
        key, value = max(before.key_absmax, now.key_absmax), max(before.value_absmax, now.value_absmax)
        self.layers[layer] = replace(before, key_absmax=key, value_absmax=value)


@contextlib.contextmanager
def installed(attention: Attention) -> Iterator[None]:
    """Register `attention` in transformers' tables as `NAME` while the block runs."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, _mask)
    try:
        yield
    finally:
        AttentionInterface._global_mapping.pop(NAME)
        AttentionMaskInterface._global_mapping.pop(NAME)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: Layer,
    by_head: ByHead = NOTHING,
) -> torch.Tensor:
    """The meaning of the node for one sequence without a past: causal softmax attention in float32."""
    group = layer.num_heads // layer.num_kv_heads
    key, value = (heads.float().repeat_interleave(group, 1) for heads in (key, value))
    scores = query.float() @ key.transpose(2, 3) * layer.scale
    if layer.softcap:
        scores = torch.tanh(scores / layer.softcap) * layer.softcap
    num_tokens = query.shape[2]
    if by_head.slopes is not None:
        places = torch.arange(num_tokens)
        scores = scores + by_head.slopes[:, None, None] * (places - places[:, None])
    scores = scores.masked_fill(~visible(torch.arange(num_tokens), num_tokens, layer.window), float("-inf"))
    if by_head.sinks is not None:
        column = by_head.sinks.float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], -1)
    return (scores.softmax(-1)[..., :num_tokens] @ value).to(query.dtype)


def visible(queries: torch.Tensor, num_tokens: int, window: int) -> torch.Tensor:
    """bool[len(queries), num_tokens]: the keys to which the queries at these positions attend."""
    distance = queries[:, None] - torch.arange(num_tokens)
    return (distance >= 0) & ((distance < window) if window > 0 else True)


def _node(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    by_head: ByHead,
    attributes: dict[str, int | float],
) -> torch.Tensor:
    more = [None, *by_head]
    while more and more[-1] is None:
        more.pop()
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::{ATTENTION}",
        (query, key, value, *more),
        attributes,
        dtype=query.dtype,
        shape=query.shape,
        version=VERSION,
    )


def _layer(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int, softcap: float
) -> Layer:
    sizes = (query.shape[1], key.shape[1], query.shape[3])
    return Layer(*sizes, scale, window, softcap, key.abs().max().item(), value.abs().max().item())


def _refuse(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    others: dict[str, Any],
) -> None:
    """Raise `ExportError` for an attention that the node does not support."""
    subject = f"{type(module).__name__} has"
    for name, what in INEXPRESSIBLE.items():
        if others.get(name) is not None:
            raise ExportError(f"{subject} {what}, which Braid's ONNX format cannot express")
    if key.shape[2] != query.shape[2]:
        raise ExportError(f"{subject} attention across sequences, which Braid's ONNX format cannot express")
    if not (query.shape[3] == key.shape[3] == value.shape[3]):
        raise ExportError(
            f"{subject} values of a larger head size than its keys, which Braid's ONNX format cannot express"
        )
    if not isinstance(attention_mask, Seen):
        raise ExportError(f"{subject} a mask of its own, which Braid cannot read")
    if attention_mask.window is None:
        raise ExportError(
            f"{subject} queries that attend to other tokens than a causal window of the last ones"
        )


def _mask(
    *,
    kv_length: int,
    mask_function: MaskFunction | None = None,
    local_size: int | None = None,
    **others: Any,
) -> Seen | None:
    """transformers' mask: the window of `mask_function`.  None while the model is traced.

    A model may make a mask that no layer reads, so it is refused where a layer does.
    """
    if torch.compiler.is_exporting() or mask_function is None:
        return None
    window = local_size or EVERYTHING
    if _draws(mask_function, window, kv_length):
        return Seen(window)
    return Seen(EVERYTHING if local_size and _in_chunks(mask_function, local_size) else None)


def _in_chunks(mask_function: MaskFunction, size: int) -> bool:
    """Whether queries attend to what is before them in their chunk of `size` tokens: to everything in the
    first one, behind which no such model is served (`first_chunk`).
    """
    queries = torch.tensor([0, 1, size - 1, size, size + 1, 2 * size - 1])
    first, keys = torch.zeros((), dtype=torch.int64), torch.arange(2 * size)
    drawn = mask_function(first, first, queries[:, None], keys[None])
    together = visible(queries, 2 * size, EVERYTHING) & (queries[:, None] // size == keys // size)
    return torch.equal(drawn.expand(len(queries), 2 * size), together)


def _draws(mask_function: MaskFunction, window: int, num_tokens: int) -> bool:
    """Whether `mask_function` agrees with `visible` for the queries at its edges."""
    reach = 2 * window + 3 if window > 0 else num_tokens
    edges = [0, 1, window - 1, window, window + 1, 2 * window, reach - 1] if window > 0 else range(reach)
    queries, first = torch.tensor([*edges]), torch.zeros((), dtype=torch.int64)
    drawn = mask_function(first, first, queries[:, None], torch.arange(reach)[None])
    return torch.equal(drawn.expand(len(queries), reach), visible(queries, reach, window))
