"""Braid's ONNX format of a decoder: every accepted ONNX folder is converted to it, every engine lowers from
it.

One `model.onnx` with its weights in files beside it.  All operators are token-wise over one packed row of
tokens, except one abstract node per layer, `braid::PagedAttention`.  A layer with routed experts has one more
abstract node, `braid::Experts` or `braid::GgufExperts` (`experts_format.py`), and recurrent layers have
others in place of attention (`recurrent_format.py`).  The graph contains no cache, no mask and no batch, so
the same file is lowered to standard operators, contrib PagedAttention or OpenVINO's when it is loaded.

    inputs    input_ids, position_ids int64[1, num_tokens] · logits_indices int64[num_logits]
    output    logits float32[num_logits, vocab]
    node      attended[1, num_heads, num_tokens, head_size] = braid::PagedAttention(
                  query[1, num_heads, num_tokens, head_size],
                  key, value[1, num_kv_heads, num_tokens, head_size])      rotary embedding already applied

The node may have one of three more inputs, initializers.  `bias` float32[num_heads, num_distances]: column d
is added to the scores of keys d tokens before the query, the last one to those of all farther keys.  `sinks`
float[num_heads]: the softmax of each head has one more score, which stands for no key and no value, so the
weights of the keys sum to less than 1.  `slopes` float32[num_heads]: slopes[h] · d is taken from the scores
of keys d tokens before the query (ALiBi).  A node has one of bias, sinks, slopes and softcap at most.

A decoder that reads the hidden states of an encoder has one more input and, in the layers that attend to
them, one
more node.  The frames of the input are those whose keys and values the step adds to the cache; every token
attends to all frames of its sequence.  They are in blocks of the same caches as the layer's own tokens, with
as many heads of the same size.

    input     context_frames float32[1, num_frames, frame_size]
    node      attended[1, num_heads, num_tokens, head_size] = braid::ContextAttention(
                  query[1, num_heads, num_tokens, head_size],
                  key, value[1, num_kv_heads, num_frames, head_size])

A decoder that reads images has two more inputs: rows that are read in the place of the embeddings of some
tokens, which stand for parts of images.  Where a row is longer than an embedding, each further part of it is
added to the state of its token after one of the first layers (deepstack).  With positions on several axes
(M-RoPE), tokens of images have their own; others have the same on each axis.  With `token_type_ids`, every
attention without `in_order` lets tokens of kind 1 that follow one another in a step, those of an image,
attend to each other.

    inputs    given_embeddings float32[num_given, width · (1 + layers)] · given_places int64[num_given], into
              the tokens of the step · given_positions int64[axes, num_given], with several axes ·
              token_type_ids int32[num_tokens], or int32[0] in a step without images; no node reads it

Weights of linear layers may stay in a GGUF file, which gguf.json names (`gguf_source`), and tables of
embeddings be blocks as such files have them.  Engines that cannot read these open the same model with codes.

    node      product float32[..., N] = braid::GgufLinear(rows float32[..., K])
    node      embeddings float32[1, num_tokens, K] = braid::GgufRows(
                  ids int64[1, num_tokens], table uint8[rows, bytes of a row])      attributes type and K
"""

from __future__ import annotations

from dataclasses import dataclass

DOMAIN, VERSION = "braid", 1
ATTENTION = "PagedAttention"
BIAS, SINKS, SLOPES = 3, 4, 5
"""Places of the optional inputs of an attention node."""
ATTRIBUTES = ("layer", "num_heads", "num_kv_heads", "head_size", "scale", "window", "softcap")
"""Attributes of every attention node.  `window`: tokens that a query attends to, with itself; -1 is no limit.
`softcap` 0 is none.  `scale` multiplies the scores before the cap.  `layer` counts from 0, in order.
"""
IN_ORDER = "in_order"
"""An optional attribute, 1 where the tokens of an image attend to what is before them alone."""
CONTEXT_ATTENTION = "ContextAttention"
CONTEXT_ATTRIBUTES = ("layer", "num_heads", "num_kv_heads", "head_size", "scale")
"""Attributes of every cross-attention node; `layer` is that of the attention node whose cache it shares."""
GGUF_LINEAR = "GgufLinear"
"""A linear layer whose weight, of N rows of K numbers, stays in a GGUF file.  Its attributes are N, K, and
`weight`: its name; `type`: ggml's number; `file`: which part of the model's files it is in, from 0; `runs`:
for each run of its rows where in the file the first one begins, how far the next one is, both in bytes, and
how many there are.
"""
GGUF_ROWS = "GgufRows"
CALIBRATION = ("key_absmax", "value_absmax")
"""Optional floats: the largest absolute key and value during calibration, for a quantized cache."""

INPUT_IDS, POSITION_IDS, LOGITS_INDICES, LOGITS = "input_ids", "position_ids", "logits_indices", "logits"
CONTEXT_FRAMES = "context_frames"
GIVEN_EMBEDDINGS, GIVEN_PLACES, GIVEN_POSITIONS = "given_embeddings", "given_places", "given_positions"
TOKEN_KINDS = "token_type_ids"
"""Inputs of a decoder that reads images."""
AND = ".and"
"""The suffix of the name of the first of several linear layers that are one, and that a Split takes apart."""
OPSET = 23
IR_VERSION = 10
SIDES = ("key", "value")
"""The two parts of a layer's cache."""


@dataclass(frozen=True)
class AttentionLayer:
    """The attributes of one attention node; see `ATTRIBUTES`.

    `key_absmax` and `value_absmax` are None when the export was not calibrated.  `has_bias`: it has a bias of
    scores by distance; `has_sinks`: it has sinks; `has_slopes`: it has slopes; `in_order`: its tokens of an
    image do not attend to one another, though those of other layers may.
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
    has_bias: bool = False
    has_sinks: bool = False
    has_slopes: bool = False
    in_order: int = 0
