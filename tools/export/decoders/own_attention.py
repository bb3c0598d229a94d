"""Families that compute attention in their modules, and not by transformers' table of attentions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tools.export.base.folder import ExportError
from tools.export.decoders.attention import EVERYTHING, SLOPES, Attention, Seen

WIDER = 16
"""The numbers by which heads grow where keys have one more number: engines' heads are multiples of it."""
Attended = tuple[torch.Tensor, None]
"""What such a module gives: the attended values, and no weights."""


def replace_attention(model: torch.nn.Module, attention: Attention) -> bool:
    """Let the modules of the known families ask `attention`; whether there are any.

    Raises `ExportError` for what they do that the format cannot express.
    """
    count = 0
    for module in list(model.modules()):
        if (replace := FAMILIES.get(type(module).__name__)) is not None:
            replace(module, attention)
            count += 1
    return count > 0


def _by_method(module: Any, attention: Attention) -> None:
    """GPT-Neo, GPT-J and CodeGen have a method for what their heads attend to."""
    window = _window(getattr(module, "bias", None))
    scale = 1.0 / getattr(module, "scale_attn", 1.0)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> Attended:
        query, key = query.to(value.dtype), key.to(value.dtype)
        attended, _ = attention(module, query, key, value, Seen(window), scale)
        return attended.transpose(1, 2), None

    module._attn = attend


def _window(seen: torch.Tensor | None) -> int:
    """How many tokens the last query of GPT-Neo's table sees."""
    count = EVERYTHING if seen is None else int(seen[0, 0, -1].sum())
    return EVERYTHING if seen is None or count == seen.shape[-1] else count


def _projected(module: Any, attention: Attention) -> None:
    """XGLM's attention has a layer for each of queries, keys and values."""

    def forward(hidden_states: torch.Tensor, *_: Any, **__: Any) -> Attended:
        layers = (module.q_proj, module.k_proj, module.v_proj)
        parts = [_heads(layer(hidden_states), module.num_heads) for layer in layers]
        attended, _ = attention(module, *parts, Seen(EVERYTHING), module.scaling)
        return module.out_proj(attended.flatten(2)), None

    module.forward = forward


def _sinusoids(module: Any, _: Attention) -> None:
    """XGLM's positions are a table, which its module makes longer for longer texts."""
    look_up = torch.nn.functional.embedding
    module.forward = lambda position_ids, *_: look_up(position_ids + module.offset, module.weights)


def _bloom(module: Any, attention: Attention) -> None:
    ones = torch.ones(1, 2)
    slopes = _function(module, "build_alibi_tensor")(ones, module.num_heads, torch.float32)[:, 0, 1]
    module.register_buffer(SLOPES, slopes.contiguous())

    def forward(hidden_states: torch.Tensor, residual: torch.Tensor, *_: Any, **__: Any) -> Attended:
        joined = module.query_key_value(hidden_states).unflatten(-1, (module.num_heads, 3, module.head_dim))
        parts = [part.transpose(1, 2) for part in joined.unbind(3)]
        attended, _ = attention(
            module, *parts, Seen(EVERYTHING), module.inv_norm_factor, slopes=module.slopes
        )
        return module.dense(attended.flatten(2)) + residual, None

    module.forward = forward


def _mpt(module: Any, attention: Attention) -> None:
    slopes = -_function(module, "build_mpt_alibi_tensor")(module.n_heads, 2)[:, 0, 0]
    module.register_buffer(SLOPES, slopes.float().contiguous())

    def forward(hidden_states: torch.Tensor, *_: Any, **__: Any) -> Attended:
        joined = module.Wqkv(hidden_states)
        if module.clip_qkv:
            joined = joined.clamp(-module.clip_qkv, module.clip_qkv)
        parts = [_heads(part, module.n_heads) for part in joined.chunk(3, dim=2)]
        attended, _ = attention(
            module, *parts, Seen(EVERYTHING), float(module.softmax_scale), slopes=module.slopes
        )
        return module.out_proj(attended.flatten(2)), None

    module.forward = forward


def _falcon(module: Any, attention: Attention) -> None:
    """Falcon's heads of keys and values lie behind the queries that share them, in each of its forms."""
    if module.config.alibi:
        raise ExportError(
            "FalconAttention rounds its ALiBi to bfloat16 by the position of a key; Braid's format takes "
            "a slope by distance"
        )
    kv_heads = module.num_kv_heads
    rotate = _function(module, "apply_rotary_pos_emb")

    def forward(hidden_states: torch.Tensor, *_: Any, **others: Any) -> Attended:
        sizes = (kv_heads, module.num_heads // kv_heads + 2, module.head_dim)
        joined = module.query_key_value(hidden_states).unflatten(-1, sizes)
        query = joined[:, :, :, :-2].flatten(2, 3).transpose(1, 2)
        key, value = joined[:, :, :, -2].transpose(1, 2), joined[:, :, :, -1].transpose(1, 2)
        query, key = rotate(query, key, *others["position_embeddings"])
        attended, _ = attention(module, query, key, value, Seen(EVERYTHING), module.inv_norm_factor)
        return module.dense(attended.flatten(2)), None

    module.forward = forward


def _differential(module: Any, attention: Attention) -> None:
    """DiffLlama's heads attend in pairs, of which the second is taken from the first.

    Both have the values of two heads, twice as wide as keys, so keys and queries get as many zeros.
    """
    module.groupnorm.normalized_shape = tuple(module.groupnorm.normalized_shape)
    rotate, size = _function(module, "apply_rotary_pos_emb"), module.head_dim

    def forward(
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        *_: Any,
        **__: Any,
    ) -> Attended:
        layers = (module.q_proj, module.k_proj, module.v_proj)
        query, key, value = (
            layer(hidden_states).unflatten(-1, (-1, size)).transpose(1, 2) for layer in layers
        )
        query, key = (
            torch.nn.functional.pad(rows, (0, size)) for rows in rotate(query, key, *position_embeddings)
        )
        value = torch.cat(value.chunk(2, dim=1), dim=-1).repeat(1, 2, 1, 1)
        attended, _ = attention(module, query, key, value, Seen(EVERYTHING), size**-0.5)
        return module.o_proj(_difference(module, attended).flatten(2)), None

    module.forward = forward


def _scored_keys(module: Any, attention: Attention) -> None:
    """Doge's keys have scores of their own, whatever the query: one more number of each key, by which a
    constant of the queries is multiplied.
    """
    if (most := module.keep_window_size) < module.config.max_position_embeddings:
        raise ExportError(
            f"DogeAttention attends to the {most} best keys of longer texts, which Braid's format cannot"
        )
    rotate, size = _function(module, "apply_rotary_pos_emb"), module.head_dim

    def forward(
        hidden_states: torch.Tensor, position_embeddings: tuple[torch.Tensor, ...], *_: Any, **__: Any
    ) -> Attended:
        layers = (module.q_proj, module.k_proj, module.v_proj)
        query, key, value = (layer(hidden_states).unflatten(-1, (-1, size)) for layer in layers)
        scores = (module.A * torch.nn.functional.softplus(module.dt_proj(value.flatten(2)))).exp()
        query, key = module.q_norm(query).transpose(1, 2), module.k_norm(key).transpose(1, 2)
        query, key = rotate(query, key, *position_embeddings)
        factors = torch.full_like(query[..., :1], 1.0 / module.scaling)
        parts = (query, factors), (key, scores.transpose(1, 2)[..., None])
        wider = [torch.nn.functional.pad(torch.cat(part, -1), (0, WIDER - 1)) for part in parts]
        attended, _ = attention(module, *wider, value.transpose(1, 2), Seen(EVERYTHING), module.scaling)
        return module.o_proj(attended.flatten(2)), None

    module.forward = forward


def _difference(module: Any, attended: torch.Tensor) -> torch.Tensor:
    """[1, tokens, heads, 2 · size] of both halves of the heads → of half as many."""
    added, taken = (
        (query * key).sum(dtype=torch.float32).exp().to(attended.dtype)
        for query, key in ((module.lambda_q1, module.lambda_k1), (module.lambda_q2, module.lambda_k2))
    )
    first, second = attended.chunk(2, dim=2)
    difference = first - (added - taken + module.lambda_init) * second
    normed: torch.Tensor = (1 - module.lambda_init) * module.groupnorm(difference)
    return normed


def _heads(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """[1, tokens, heads · size] → [1, heads, tokens, size]."""
    return rows.unflatten(-1, (heads, -1)).transpose(1, 2)


def _function(module: Any, name: str) -> Callable[..., Any]:
    """A function of the file in which transformers defines `module`."""
    return partial(getattr(sys.modules[type(module).__module__], name))


FAMILIES: dict[str, Callable[[Any, Attention], None]] = {
    "GPTNeoSelfAttention": _by_method,
    "GPTJAttention": _by_method,
    "CodeGenAttention": _by_method,
    "XGLMAttention": _projected,
    "XGLMSinusoidalPositionalEmbedding": _sinusoids,
    "BloomAttention": _bloom,
    "MptAttention": _mpt,
    "FalconAttention": _falcon,
    "DiffLlamaAttention": _differential,
    "DogeAttention": _scored_keys,
}
"""Classes of such modules."""
