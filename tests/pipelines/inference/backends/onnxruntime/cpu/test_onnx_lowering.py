"""Paged attention in standard operators computes what its formula says, and writes the cache in place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import least_cpu_s
from small_onnx_decoders import sinks_of

from ops.cache_blocks import slot_mapping
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.onnx_format import decoder_format
from pipelines.onnx_format.decoder_format import AttentionLayer

PLAIN = AttentionLayer(layer=0, num_heads=2, num_kv_heads=1, head_size=8, scale=0.3, window=-1, softcap=0.0)
BLOCK_TOKENS = 4
SHARED = ("Cast", "Range", "LessOrEqual", "ReduceMax", "Slice")


def one_layer(layer: AttentionLayer) -> DecoderModel:
    """A decoder that is nothing but attention: query, key and value are inputs, what was attended is given."""
    heads = {"query": layer.num_heads, "key": layer.num_kv_heads, "value": layer.num_kv_heads}
    shapes = {name: [1, count, "num_tokens", layer.head_size] for name, count in heads.items()}
    qkv = [ir.val(name, ir.DataType.FLOAT, shape) for name, shape in shapes.items()]
    ids = [
        ir.val(name, ir.DataType.INT64, [1, "num_tokens"])
        for name in (decoder_format.INPUT_IDS, decoder_format.POSITION_IDS)
    ]
    attributes = {name: getattr(layer, name) for name in decoder_format.ATTRIBUTES}
    sinks = ir.val("sinks", const_value=ir.tensor(sinks_of(layer), name="sinks"))
    more = [None, sinks] if layer.has_sinks else []
    node = ir.node(decoder_format.ATTENTION, [*qkv, *more], attributes, domain=decoder_format.DOMAIN)
    attended = ir.node("Identity", node.outputs)
    attended.outputs[0].name = "attended"
    attended.outputs[0].dtype, attended.outputs[0].shape = ir.DataType.FLOAT, ir.Shape(shapes["query"])
    opsets = {"": decoder_format.OPSET, decoder_format.DOMAIN: decoder_format.VERSION}
    graph = ir.Graph([*ids, *qkv], attended.outputs, nodes=[node, attended], opset_imports=opsets, name="one")
    if layer.has_sinks:
        graph.register_initializer(sinks)
    return DecoderModel(ir.Model(graph, ir_version=decoder_format.IR_VERSION), Path(), [layer], 1, 64, "f32")


@dataclass
class Scene:
    """Sequences with random pasts in a cache whose blocks lie in no order."""

    layer: AttentionLayer
    num_new: list[int]
    num_past: list[int]
    seed: int = 0
    num_blocks: int | None = None

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        contexts = np.array(self.num_new) + self.num_past
        self.counts = -(-contexts // BLOCK_TOKENS)
        total = self.num_blocks or int(self.counts.sum()) + 2  # one that is nobody's, and the scratch block
        order = self.random.permutation(total - 1)
        self.table = np.full((len(contexts), self.counts.max()), order[0], np.int32)
        for row, (end, count) in enumerate(zip(np.cumsum(self.counts), self.counts, strict=True)):
            self.table[row, :count] = order[end - count : end]
        self.starts = np.concatenate([[0], np.cumsum(self.num_new)]).astype(np.int32)
        self.positions = np.concatenate(
            [np.arange(past, past + new) for past, new in zip(self.num_past, self.num_new, strict=True)]
        )
        self.slots = slot_mapping(self.table, self.starts, self.positions, BLOCK_TOKENS).astype(np.int32)
        shape = (total, BLOCK_TOKENS, self.layer.num_kv_heads, self.layer.head_size)
        self.key_cache, self.value_cache = (self.normal(*shape) for _ in range(2))
        num_tokens, size = int(self.starts[-1]), self.layer.head_size
        self.query = self.normal(1, self.layer.num_heads, num_tokens, size)
        self.key, self.value = (self.normal(1, self.layer.num_kv_heads, num_tokens, size) for _ in range(2))

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=shape).astype(np.float32)

    def feed(self) -> dict[str, np.ndarray]:
        return {
            "input_ids": np.zeros(len(self.slots), np.int64),
            "position_ids": self.positions.astype(np.int64),
            "cumulative_sequence_length": self.starts,
            "past_seqlens": np.array(self.num_past, np.int32),
            "block_table": self.table,
            "slot_mapping": self.slots,
            "query": self.query,
            "key": self.key,
            "value": self.value,
        }

    def expected(self) -> np.ndarray:
        """[num_heads, T, head_size]: the formula, one query at a time, over the caches as they are now."""
        result = np.empty_like(self.query[0])
        group = self.layer.num_heads // self.layer.num_kv_heads
        for row, past in enumerate(self.num_past):
            blocks = self.table[row, : self.counts[row]]
            shape = (-1, self.layer.num_kv_heads, self.layer.head_size)
            keys, values = (cache[blocks].reshape(shape) for cache in (self.key_cache, self.value_cache))
            for token in range(self.starts[row], self.starts[row + 1]):
                end = past + token - self.starts[row] + 1
                begin = max(0, end - self.layer.window) if self.layer.window > 0 else 0
                for head in range(self.layer.num_heads):
                    seen = slice(begin, end), head // group
                    operands = self.query[0, head, token], keys[seen], values[seen]
                    result[head, token] = attend(*operands, self.layer, sinks_of(self.layer)[head])
        return result


def attend(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, layer: AttentionLayer, sink: float
) -> np.ndarray:
    scores = keys @ query * layer.scale
    if layer.softcap:
        scores = np.tanh(scores / layer.softcap) * layer.softcap
    least = max(scores.max(), sink) if layer.has_sinks else scores.max()
    weights = np.exp(scores - least)
    return weights / (weights.sum() + layer.has_sinks * np.exp(sink - least)) @ values


def session_for(layer: AttentionLayer):
    model = ir.to_proto(lower_for_cpu(one_layer(layer), BLOCK_TOKENS)).SerializeToString()
    return open_session(model, Path(), [CPU], 1, {})


def run(session, scene: Scene) -> np.ndarray:
    """[num_heads, T, head_size]; the scene's caches are bound as input and as output."""
    binding, feed = session.io_binding(), scene.feed()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for side, cache in (("key", scene.key_cache), ("value", scene.value_cache)):
        where = ("cpu", 0, np.float32, list(cache.shape), cache.ctypes.data)
        binding.bind_input(f"{side}_cache.0", *where)
        binding.bind_output(f"{side}_cache_out.0", *where)
    binding.bind_output("attended")
    session.run_with_iobinding(binding)
    return binding.get_outputs()[-1].numpy()[0]


layers = st.builds(
    lambda kv_heads, group, half, window, softcap: AttentionLayer(
        0, kv_heads * group, kv_heads, 2 * half, 0.4, window, softcap or 0.0, has_sinks=softcap is None
    ),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from([-1, 1, 3, 8]),
    st.sampled_from([0.0, 1.5, None]),
)
sequences = st.lists(st.tuples(st.integers(1, 7), st.integers(0, 9)), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(layers, sequences, st.integers(0, 99))
def test_attention_is_its_formula(layer, sequences, seed):
    scene = Scene(layer, [new for new, _ in sequences], [past for _, past in sequences], seed)
    before = scene.key_cache.copy(), scene.value_cache.copy()
    attended = run(session_for(layer), scene)
    for cache, old, new in zip(
        (scene.key_cache, scene.value_cache), before, (scene.key, scene.value), strict=True
    ):
        old.reshape(-1, *old.shape[2:])[scene.slots] = new[0].swapaxes(0, 1)
        np.testing.assert_array_equal(cache, old)
    np.testing.assert_allclose(attended, scene.expected(), rtol=2e-4, atol=2e-5)


def test_a_token_of_slot_minus_one_falls_into_the_last_block():
    scene = Scene(PLAIN, [1, 3], [5, 2])
    scene.slots[[0, 2]] = -1
    before = scene.key_cache.copy()
    run(session_for(PLAIN), scene)
    changed = set(np.flatnonzero((scene.key_cache != before).any(axis=(1, 2, 3))).tolist())
    assert changed == {len(before) - 1, *(scene.slots[[1, 3]] // BLOCK_TOKENS).tolist()}


@pytest.mark.breadth
def test_a_large_cache_does_not_slow_a_step():
    """A copy of the large one alone would take some 50 ms; a step in place takes well under one."""

    def seconds(num_blocks: int) -> float:
        session, scene = session_for(PLAIN), Scene(PLAIN, [2, 1], [9, 3], num_blocks=num_blocks)
        return least_cpu_s(lambda: run(session, scene))

    num_large = (128 << 20) // (BLOCK_TOKENS * PLAIN.head_size * 4)
    assert seconds(num_large) < seconds(16) + 0.015


def test_a_decoder_can_be_lowered_again():
    decoder = one_layer(replace(PLAIN, window=3))
    first, second = (ir.to_proto(lower_for_cpu(decoder, size)) for size in (BLOCK_TOKENS, 32))
    assert [value.name for value in decoder.model.graph.inputs] == [
        "input_ids",
        "position_ids",
        "query",
        "key",
        "value",
    ]
    assert len(first.graph.node) == len(second.graph.node)
    assert decoder_format.DOMAIN not in {opset.domain for opset in first.opset_import}


def test_what_layers_share_is_computed_once():
    """A second layer adds only its own nodes: no cast, comparison or count of tokens."""
    decoder = one_layer(PLAIN)
    graph = decoder.model.graph
    first = graph[0]
    second = ir.node(
        decoder_format.ATTENTION, first.inputs, {**first.attributes, "layer": 1}, domain=decoder_format.DOMAIN
    )
    graph.insert_after(first, second)
    graph[2].replace_input_with(0, second.outputs[0])
    decoder.layers.append(replace(PLAIN, layer=1))
    two, counters = (
        Counter(node.op_type for node in lower_for_cpu(written, BLOCK_TOKENS).graph)
        for written in (decoder, one_layer(PLAIN))
    )
    assert (two["Attention"], two["ScatterND"]) == (2, 4)
    assert [two[name] for name in SHARED] == [counters[name] for name in SHARED]
