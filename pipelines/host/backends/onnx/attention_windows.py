"""Reads the sliding windows of attention layers from config.json, in its old and new fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.host.backends.device_errors import ModelError

EVERY_NTH_FULL = {"gemma3_text": 6, "gemma3": 6, "cohere2": 4}
"""Model type → the default of `sliding_window_pattern`: every n-th layer has full attention."""


def read_attention_windows(fields: Mapping[str, Any], num_layers: int) -> list[int]:
    """Tokens that each layer's queries attend to, themselves included; -1 is no limit.

    Since transformers 4.53 `layer_types` states it; before, each model type had fields of its own.  Raises
    `ModelError` for kinds of attention that are neither full nor sliding.
    """
    window = int(fields.get("sliding_window") or -1)
    kinds = fields.get("layer_types") or _kinds(fields, num_layers, window)
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown or len(kinds) < num_layers:
        raise ModelError(
            f"config.json names {', '.join(sorted(unknown)) or len(kinds)} for {num_layers} layers; Braid "
            "knows full_attention and sliding_attention."
        )
    return [window if kind == "sliding_attention" else -1 for kind in kinds[:num_layers]]


def _kinds(fields: Mapping[str, Any], num_layers: int, window: int) -> list[str]:
    """The kinds of layers for configs without `layer_types`, by the rules of the configurations in
    transformers.
    """
    kind = fields.get("model_type")
    if window == -1 or fields.get("use_sliding_window") is False:
        return ["full_attention"] * num_layers
    if kind == "gemma2":
        slides = [number % 2 == 0 for number in range(num_layers)]
    elif kind in EVERY_NTH_FULL:
        pattern = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern")
        nth = int(pattern or EVERY_NTH_FULL[kind])
        slides = [bool((number + 1) % nth) for number in range(num_layers)]
    else:
        first = int(fields.get("max_window_layers") or 0) if "use_sliding_window" in fields else 0
        slides = [number >= first for number in range(num_layers)]
    return ["sliding_attention" if each else "full_attention" for each in slides]
