"""Braid's ONNX form of a decoder: what every accepted ONNX folder is read as, and every engine lowers from.

One `model.onnx` whose weights lie beside it.  Everything in it is token-wise over one packed row of tokens,
except one abstract node per layer, `braid::PagedAttention`.  No cache, no mask and no batch stand in the
graph, so the same file becomes standard ops, contrib PagedAttention or OpenVINO's when it is loaded.

    inputs    input_ids, position_ids int64[1, num_tokens] · logits_indices int64[num_logits]
    output    logits float32[num_logits, vocab]
    node      attended[1, num_heads, num_tokens, head_size] = braid::PagedAttention(
                  query[1, num_heads, num_tokens, head_size],
                  key, value[1, num_kv_heads, num_tokens, head_size])      rotary embedding already applied

Knows names and attributes; reads no file and knows no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

DOMAIN, VERSION = "braid", 1
ATTENTION = "PagedAttention"
ATTRIBUTES = ("layer", "num_heads", "num_kv_heads", "head_size", "scale", "window", "softcap")
"""Of every attention node.  `window` counts the tokens a query sees, itself included; -1 is no limit.
`softcap` 0 is none.  `scale` multiplies the scores before the cap.  `layer` counts from 0, in order."""
CALIBRATION = ("key_absmax", "value_absmax")
"""Optional floats: the largest absolute key and value that the export saw, for a quantized cache."""

INPUT_IDS, POSITION_IDS, LOGITS_INDICES, LOGITS = "input_ids", "position_ids", "logits_indices", "logits"
OPSET = 23
IR_VERSION = 10
SIDES = ("key", "value")
"""Of a layer's cache."""


@dataclass(frozen=True)
class AttentionLayer:
    """The attributes of one attention node; their meaning stands above.

    `key_absmax` and `value_absmax` are None where the export measured none.
    """

    layer: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    window: int
    softcap: float
    key_absmax: float | None = None
    value_absmax: float | None = None
