"""What a decoder's config.json declares of its attention: layers, windows, and how far it is what it says.

Fields of old and new versions of transformers are read; since 4.53 `layer_types` states the kinds of layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.inference.contracts.device_errors import ModelError

EVERY_NTH_FULL = {"gemma3_text": 6, "gemma3": 6, "cohere2": 4}
"""Model type → the default of `sliding_window_pattern`: every n-th layer has full attention."""
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
WITHOUT_KEYS = frozenset({"conv", "linear_attention", "mamba"})
"""Kinds of layers that are no attention over a cache of keys."""
OTHER_NAMES = {"global": FULL, "local": SLIDING, "attention": FULL}
"""Kinds of layers as gpt_neo and granitemoehybrid call them."""
NUMBERS_OF_LAYERS = (
    "decoder_layers",
    "num_decoder_layers",
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
)
CHUNK_SIZE = "attention_chunk_size"
LONG_ROPE = frozenset({"longrope", "su"})
"""Kinds of rotary embeddings that use other factors beyond `original_max_position_embeddings`."""


def read_attention_windows(fields: Mapping[str, Any], num_layers: int) -> list[int]:
    """Tokens that each layer's queries attend to, themselves included; -1 is no limit.

    Before `layer_types` each model type had fields of its own.  A chunk of attention is no limit within
    `exact_context`.  Raises `ModelError` for other kinds of attention.
    """
    window = int(fields.get("window_size" if "attention_types" in fields else "sliding_window") or -1)
    stated = _stated_kinds(fields)
    kinds = _kinds(fields, num_layers, window) if stated is None else stated
    unknown = set(kinds) - {FULL, SLIDING, CHUNKED}
    if unknown or len(kinds) < num_layers:
        raise ModelError(
            f"config.json names {', '.join(sorted(unknown)) or len(kinds)} for {num_layers} layers; Braid "
            f"knows {FULL} and {SLIDING}."
        )
    return [window if kind == SLIDING else -1 for kind in kinds[:num_layers]]


def exact_context(fields: Mapping[str, Any], max_context: int) -> int:
    """The longest context in tokens in which paged attention computes what config.json declares.

    Longer ones would need attention in chunks, or factors of rotary embeddings that differ within a batch.
    """
    return min([max_context, *_bounds(fields)])


def first_chunk(fields: Mapping[str, Any], max_context: int) -> int:
    """The longest context in tokens in which attention in chunks is attention to everything before."""
    chunk = fields.get(CHUNK_SIZE)
    return (
        min(max_context, int(chunk))
        if chunk and CHUNKED in (fields.get("layer_types") or ())
        else max_context
    )


def check_num_layers(num_layers: int, fields: Mapping[str, Any]) -> None:
    """Raise `ModelError` unless config.json declares as many layers of attention as the model has."""
    declared = _num_attention_layers(fields)
    if declared not in (None, num_layers):
        raise ModelError(
            f"the model has {num_layers} layers of attention and its config.json declares {declared}: the "
            "files are of different models, or of an export in which layers are missing."
        )


def _num_attention_layers(fields: Mapping[str, Any]) -> int | None:
    """None where config.json has none, or kinds of layers that Braid does not know."""
    if (stated := _stated_kinds(fields)) is not None:
        return len(stated)
    if any(name in fields for name in ("layers_block_type", "hybrid_override_pattern", "block_types")):
        return None
    return next((int(fields[name]) for name in NUMBERS_OF_LAYERS if name in fields), None)


def reaches(fields: Mapping[str, Any]) -> list[int]:
    """Distances in tokens behind which a decoder may treat tokens in another way."""
    windows = [fields.get("sliding_window"), fields.get("window_size")]
    return [int(window) for window in windows if window] + list(_bounds(fields))


def _bounds(fields: Mapping[str, Any]) -> Iterator[int]:
    if (chunk := first_chunk(fields, sys.maxsize)) < sys.maxsize:
        yield chunk
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type")) in LONG_ROPE:
        name = "original_max_position_embeddings"
        if original := rope.get(name) or fields.get(name):
            yield int(original)


def _stated_kinds(fields: Mapping[str, Any]) -> list[str] | None:
    """The kinds of the layers with keys, where config.json names them."""
    if types := fields.get("layer_types"):
        return [OTHER_NAMES.get(kind, kind) for kind in types if kind not in WITHOUT_KEYS]
    if places := fields.get("attn_layer_indices"):
        return [FULL] * len(places)
    if every := fields.get("attn_layer_period"):
        layers = range(int(fields["num_hidden_layers"]))
        return [FULL for number in layers if number % int(every) == int(fields["attn_layer_offset"])]
    if groups := fields.get("attention_types"):
        return [OTHER_NAMES.get(kind, kind) for kinds, times in groups for kind in list(kinds) * times]
    return None


def _kinds(fields: Mapping[str, Any], num_layers: int, window: int) -> list[str]:
    """The kinds of layers for configs without `layer_types`, by the rules of the configurations in
    transformers.
    """
    kind = fields.get("model_type")
    if window == -1 or fields.get("use_sliding_window") is False:
        return [FULL] * num_layers
    if kind == "gemma2":
        slides = [number % 2 == 0 for number in range(num_layers)]
    elif kind in EVERY_NTH_FULL:
        pattern = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern")
        nth = int(pattern or EVERY_NTH_FULL[kind])
        slides = [bool((number + 1) % nth) for number in range(num_layers)]
    else:
        first = int(fields.get("max_window_layers") or 0) if "use_sliding_window" in fields else 0
        slides = [number >= first for number in range(num_layers)]
    return [SLIDING if is_sliding else FULL for is_sliding in slides]
