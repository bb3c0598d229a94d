"""OpenVINO's private attention node for the attention nodes of Braid's ONNX format.

This is the only file that creates it; its inputs are tested by
tests/pipelines/inference/backends/openvino/decoder/test_openvino_from_onnx.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import ArrayLike, DTypeLike
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.decoder.token_order import HEADS_LAST

STEP_SHAPES: dict[str, list[str | int]] = {
    "past_lens": ["num_seqs"],
    "subsequence_begins": ["num_seqs_plus_1"],
    "block_indices": ["num_blocks_used"],
    "block_indices_begins": ["num_seqs_plus_1"],
    "max_context_len": [],
}
"""int32 inputs that the graph gains, in the order in which the attention node takes them."""

BEFORE_SINKS: list[tuple[type, tuple[int, ...]]] = [
    (np.int32, (0,)),  # windows over which scores are summed
    *[(np.int32, (0,)), (np.int32, (0,)), (np.float32, (0,))],  # rotated blocks, by how much, their table
    *[(np.float32, (0,)), (np.int32, ()), (np.int32, ())],  # sparse attention: threshold, block size, stride
]
BEHIND_SINKS: list[tuple[type, tuple[int, ...]]] = [
    *[(np.int32, ()), (np.int32, (0,)), (np.int32, (0,)), (np.int32, (0,))],  # eviction by diversity
]
BEHIND_KINDS: list[tuple[type, tuple[int, ...]]] = [
    *[(np.uint8, (0,)), (np.int32, (0,))],  # bias between queries, and its begins
]
"""Type and shape of further inputs of the attention node, for features that are off."""
BEHIND_STEP = 3 + 2 + len(STEP_SHAPES)
"""The place of kinds of tokens, then of sinks or of slopes, among the inputs of the format's node with cache
and step.
"""
HAS_KINDS, HAS_SLOPES = "has_kinds", "has_slopes"
"""Attributes of such a node: 1 where it has kinds of tokens; 1 where it has slopes."""


def convert_attention(node: Any) -> list[ov.Output]:
    """OpenVINO's attention node for the format's node, which has cache and step among its inputs."""
    query, key, value = _query_key_value(node)
    window = max(node.get_attribute("window"), 0)  # 0 is no limit
    return _split_heads(node, _paged(node, query, key, value, window))


def convert_context_attention(node: Any) -> list[ov.Output]:
    """The node of cross-attention: each token is a sequence of its own, whose new key is that of
    its last frame and whose past are the other frames.  So a token attends to exactly its frames.
    """
    query, key, value = _query_key_value(node)
    return _split_heads(node, _paged(node, query, key, value, 0))


def _query_key_value(node: Any) -> Iterator[ov.Output]:
    heads, kv_heads, size = (node.get_attribute(name) for name in ("num_heads", "num_kv_heads", "head_size"))
    for number, width in enumerate((heads, kv_heads, kv_heads)):
        yield _rows(node.get_input(number), width * size)


def _paged(node: Any, query: ov.Output, key: ov.Output, value: ov.Output, window: int) -> ov.Output:
    """[tokens, heads * size] that the rows of `query` find, over the node's cache and step."""
    from openvino.op import _PagedAttentionExtension

    kv_heads, size = node.get_attribute("num_kv_heads"), node.get_attribute("head_size")
    key_cache, value_cache, past, begins, blocks, block_begins, longest = (
        node.get_input(3 + number) for number in range(2 + len(STEP_SHAPES))
    )
    attended = _PagedAttentionExtension(
        [
            *(query, key, value),
            *(key_cache, value_cache, past, begins, blocks, block_begins),
            _constant(node.get_attribute("scale"), np.float32),
            _constant(window, np.int32),
            _slopes(node),
            longest,
            *_unused(BEFORE_SINKS),
            _sinks(node),
            *_unused(BEHIND_SINKS),
            node.get_input(BEHIND_STEP) if _has_kinds(node) else _constant([], np.int32),
            *_unused(BEHIND_KINDS),
        ]
    )
    sizes = {"num_k_heads": kv_heads, "num_v_heads": kv_heads, "k_head_size": size, "v_head_size": size}
    for name, number in sizes.items():
        attended.set_rt_info(number, name)  # the device shapes the cache by it
    return attended.output(0)


def _sinks(node: Any) -> ov.Output:
    """float32[1, heads, 1, 1], or an empty array where the node has none."""
    place = BEHIND_STEP + _has_kinds(node)
    if node.get_input_size() <= place or node.get_attribute(HAS_SLOPES):
        return _constant(np.zeros((0, 0, 0, 0)), np.float32)
    heads = ops.convert(node.get_input(place), "f32")
    return ops.reshape(heads, ops.constant([1, -1, 1, 1]), False).output(0)


def _slopes(node: Any) -> ov.Output:
    """float32[heads] of ALiBi, or an empty array where the node has none."""
    if not node.get_attribute(HAS_SLOPES):
        return _constant([], np.float32)
    return ops.convert(node.get_input(BEHIND_STEP + _has_kinds(node)), "f32").output(0)


def _has_kinds(node: Any) -> int:
    return int(node.get_attribute(HAS_KINDS))


def _unused(inputs: list[tuple[type, tuple[int, ...]]]) -> Iterator[ov.Output]:
    return (_constant(np.zeros(shape), dtype) for dtype, shape in inputs)


def _split_heads(node: Any, rows: ov.Output) -> list[ov.Output]:
    heads, size = node.get_attribute("num_heads"), node.get_attribute("head_size")
    dtype = node.get_input(0).get_element_type()
    split = ops.reshape(ops.convert(rows, dtype), ops.constant([1, -1, heads, size]), False)
    outputs: list[ov.Output] = ops.transpose(split, ops.constant(HEADS_LAST)).outputs()
    return outputs


def _rows(heads: ov.Output, width: int) -> ov.Output:
    """[1, heads, tokens, size] → float32[tokens, width = heads * size].

    The device may narrow it again; with bfloat16 inputs it refuses to compute in any other type.
    """
    tokens_first = ops.transpose(heads, ops.constant(HEADS_LAST))
    rows = ops.reshape(tokens_first, ops.constant([-1, width]), False)
    return ops.convert(rows, "f32").output(0)


def _constant(value: ArrayLike, dtype: DTypeLike) -> ov.Output:
    return ops.constant(np.asarray(value, dtype)).output(0)
