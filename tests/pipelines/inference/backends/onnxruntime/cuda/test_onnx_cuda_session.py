"""The CUDA session without a GPU: its kernels through the host shim, its model on ONNX Runtime's CPU provider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from host_device import HostDevice
from host_runtime import BLOCK_TOKENS, HostRuntime, lower_for_host, open_on_host
from small_onnx_decoders import CONTEXT, VOCABULARY, write_small
from small_steps import make_step

from ops.cuda.device import DeviceError
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import (
    CAPTURE_LOCK,
    MAX_PADDING,
    NO_GRAPH,
    RUNS_TO_CAPTURE,
    GraphShape,
)
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.kv_cache import OnnxCudaCache, OnnxCudaCacheLayout
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import ELEMENTS
from pipelines.inference.backends.onnxruntime.cuda.open_decoder import open_decoder
from pipelines.inference.backends.onnxruntime.cuda.step_parts import StepPart
from pipelines.inference.backends.onnxruntime.cuda.warmup_steps import attention_bounds, largest_steps
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import DeviceLost, ModelError
from pipelines.inference.contracts.step import Step, no_pairs
from pipelines.onnx_format.decoder_format import AttentionLayer

NUM_BLOCKS = 24


@pytest.fixture
def opened(tmp_path):
    session, runtime, device = open_on_host(tmp_path, num_blocks=NUM_BLOCKS, num_host_blocks=4)
    yield session, runtime, device
    session.close()


@pytest.fixture
def session(opened):
    return opened[0]


@pytest.fixture
def reference(tmp_path):
    """The CPU session over the same model."""
    opened = OnnxCpuSession(write_small(tmp_path, rotary=True), OnnxCpuSettings(1, BLOCK_TOKENS))
    opened.allocate(NUM_BLOCKS)
    yield opened
    opened.close()


def step_of(sequences: list[tuple[int, int]], samples: list[int] | None = None, seed: int = 0) -> Step:
    """Random tokens; sequence i owns blocks 4 * i to 4 * i + 3."""
    step = make_step(sequences, [1] * len(sequences) if samples is None else samples)
    table = np.arange(4 * len(sequences), dtype=np.int32).reshape(-1, 4)[:, : step.num_blocks.max()]
    tokens = np.random.default_rng(seed + sum(past for past, _ in sequences)).integers(
        0, VOCABULARY, step.num_tokens
    )
    return replace(step, token_ids=tokens, block_table=np.ascontiguousarray(table), copies=no_pairs())


LIFE = [
    ([(0, 20), (0, 5), (0, 9)], None),
    ([(20, 1), (5, 1), (9, 1)], None),
    ([(21, 1), (6, 1), (10, 30)], [1, 1, 0]),
    ([(22, 1), (7, 1), (40, 1)], None),
    ([(23, 1), (8, 3), (41, 1), (0, 4)], [1, 2, 1, 0]),
    ([(24, 1), (11, 1), (42, 1), (4, 11)], None),
    ([(25, 1), (12, 1), (43, 1), (15, 1)], None),
]
"""Prompts, chunks without logits, rows that are sampled twice, steps that only decode, contexts over blocks."""


def live(session) -> list[np.ndarray]:
    return [np.array(session.run(step_of(*one))) for one in LIFE]


@pytest.mark.parametrize("gathers", [False, True])
def test_logits_equal_the_cpu_sessions(tmp_path, reference, gathers):
    """Whether a step is one part, or decodes and prompt chunks apart."""
    session, _, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS, gathers=gathers)
    for ours, theirs in zip(live(session), live(reference), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)
        assert (ours.argmax(-1) == theirs.argmax(-1)).all()
    session.close()


def test_half_precision_lies_in_pools_of_its_bytes(tmp_path):
    session, _, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS, element_type="f16")
    full, _, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS)
    assert session.shape.block_bytes * 2 == full.shape.block_bytes
    assert {pool.dtype for pool in session._bindings.cache.pools.values()} == {np.dtype(np.uint16)}
    for half, exact in zip(live(session), live(full), strict=True):
        np.testing.assert_allclose(half, exact, atol=0.02)
    session.close()
    full.close()


@pytest.mark.parametrize("kv_cache", ["f16", "bf16", "i8", "f8"])
def test_pools_of_every_cache_type_are_bound_by_address(kv_cache):
    """ONNX Runtime is told the type by its number; the arrays themselves need not have it."""
    layout = OnnxCudaCacheLayout([AttentionLayer(0, 2, 1, 8, 1.0, -1, 0.0)], 16, ELEMENTS[kv_cache])
    cache = OnnxCudaCache(HostDevice(), layout, num_blocks=3)
    source, target = cache.pools.values()
    assert (
        layout.block_bytes
        == source[:1].nbytes + target[:1].nbytes
        == 2 * 16 * 8 * ELEMENTS[kv_cache].num_bytes
    )
    source[:] = np.arange(source.size).reshape(source.shape)
    session = identity(layout.element.number)
    binding = session.io_binding()
    for bind, name, pool in ((binding.bind_input, "x", source), (binding.bind_output, "y", target)):
        bind(name, "cpu", 0, layout.element.number, pool.shape, pool.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(source, target)


def identity(kind: int) -> ort.InferenceSession:
    x, y = (onnx.helper.make_tensor_value_info(name, kind, ["n", 16, 1, 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_padding_changes_no_bit(tmp_path, session):
    """Decoding three sequences in a bucket of four, and as they are."""
    plain, _, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS)
    plain._decode = lambda step, shape: plain._compute(StepPart(step, 0))
    for padded, exact in zip(live(session), live(plain), strict=True):
        np.testing.assert_array_equal(padded, exact)
    plain.close()


def test_padding_rows_write_to_the_scratch_block_alone(session):
    session.run(step_of([(0, 20), (0, 5), (0, 9)]))
    before = {name: pool.copy() for name, pool in session._bindings.cache.pools.items()}
    session.run(step_of([(20, 1), (5, 1), (9, 1)]))
    written = {(1, 4), (4, 5), (8, 9)}
    for name, pool in session._bindings.cache.pools.items():
        changed = np.argwhere((pool != before[name]).any(axis=(2, 3)))
        assert {(block, offset) for block, offset in changed.tolist() if block < NUM_BLOCKS} == written


def test_the_cache_begins_as_zeros(session):
    """Memory of a device holds anything; a key that is no number would be multiplied by a weight of 0."""
    assert all((pool == 0).all() for pool in session._bindings.cache.pools.values())


def test_blocks_are_copied_and_swapped_before_the_model_runs(session):
    """A context that went to the host and back, and a copy of it, both into other blocks, go on alike."""
    session.run(step_of([(0, 20)]))
    expected = np.array(session.run(step_of([(20, 1)])))
    away = replace(step_of([(0, 1)]), block_table=np.array([[12]], np.int32), swaps_out=pairs((0, 3), (1, 1)))
    session.run(away)
    for pool in session._bindings.cache.pools.values():
        pool[:2] = 7
    back = replace(
        step_of([(20, 1)]),
        block_table=np.array([[9, 5]], np.int32),
        swaps_in=pairs((3, 9), (1, 4)),
        copies=pairs((4, 5)),
    )
    np.testing.assert_array_equal(session.run(back), expected)


def pairs(*listed: tuple[int, int]) -> np.ndarray:
    return np.array(listed, np.int32)


def test_more_sequences_than_a_call_takes(tmp_path, monkeypatch):
    """Two calls of a step, their logits one behind the other, each from a graph of its own."""
    sequences = [(5, 1), (9, 1), (20, 1), (3, 1), (7, 1)]
    filled = [(0, past) for past, _ in sequences]
    whole, _, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS)
    whole.run(step_of(filled))
    expected = np.array(whole.run(step_of(sequences)))
    monkeypatch.setattr("pipelines.inference.backends.onnxruntime.cuda.decoder_session.MAX_BATCH", 2)
    split_step, runtime, _ = open_on_host(tmp_path, num_blocks=NUM_BLOCKS)
    split_step.run(step_of(filled))
    runtime.graph_ids.clear()
    logits = split_step.run(step_of(sequences))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=2e-6)
    assert runtime.graph_ids == [1, 2, 3]
    assert [shape.first_row for shape in split_step._bound] == [0, 2, 4]


def test_logits_are_the_callers_until_the_next_run(session):
    logits = session.run(step_of([(0, 5), (0, 7)]))
    assert (logits.shape, logits.dtype) == ((2, VOCABULARY), np.float32)
    logits[:] = 0
    assert np.isfinite(session.run(step_of([(5, 1), (7, 1)]))).all()


def test_a_step_without_logits_fills_the_cache(session):
    expected = np.array(session.run(step_of([(0, 20)])))
    step = step_of([(0, 20)])
    chunk = replace(
        step, token_ids=step.token_ids[:12], positions=step.positions[:12], starts=np.array([0, 12], np.int32)
    )
    nothing = np.zeros(0, np.int64)
    first = replace(chunk, max_context=12, logit_indices=nothing, logit_slots=nothing.astype(np.int32))
    assert session.run(first).shape == (0, VOCABULARY)
    rest = replace(
        step,
        token_ids=step.token_ids[12:],
        positions=step.positions[12:],
        starts=np.array([0, 8], np.int32),
        num_past=np.array([12], np.int32),
        logit_indices=np.array([7]),
    )
    np.testing.assert_allclose(session.run(rest), expected, rtol=0, atol=2e-6)


# Buckets and graphs


def test_a_decoding_shape_gets_a_graph_id_and_keeps_it(opened):
    session, runtime, _ = opened
    for sequences in LIFE[:2]:
        session.run(step_of(*sequences))
    assert runtime.graph_ids == [NO_GRAPH, 1]
    for _ in range(RUNS_TO_CAPTURE):
        session.run(step_of(*LIFE[1]))
    assert runtime.graph_ids[1:] == [1] * (RUNS_TO_CAPTURE + 1)
    assert session.describe()["graphs"] == "1"
    session.run(step_of([(33, 1), (5, 1)]))
    assert runtime.graph_ids[-1] == 2
    assert list(session._bound) == [GraphShape(4, 2), GraphShape(2, 4)]


def test_a_graphs_addresses_never_change(opened):
    """A replay reads and writes where its capture did."""
    session, _, device = opened
    addresses = []
    for past in range(20, 24):
        session.run(step_of([(past, 1), (5, 1), (9, 1)]))
        bound = session._bound[GraphShape(4, 2)]
        inputs = [device.pointer(getattr(bound.inputs, name)) for name in bound.inputs.__slots__]
        addresses.append([*inputs, device.pointer(bound.logits), bound.bounds.ctypes.data])
    assert all(one == addresses[0] for one in addresses)


def test_no_capture_while_another_thread_loads(opened):
    session, runtime, _ = opened
    with CAPTURE_LOCK.device_calls():
        session.run(step_of(*LIFE[1]))
    session.run(step_of(*LIFE[1]))
    assert runtime.graph_ids == [NO_GRAPH, 1]


def test_a_failed_capture_is_computed_without_a_graph(opened, caplog):
    session, runtime, _ = opened
    expected = np.array(session.run(step_of(*LIFE[0])))

    def fail(graph_id: int) -> None:
        if graph_id >= 0:
            raise RuntimeError("CUDA failure 900: operation not permitted when stream is capturing")

    session.run(step_of(*LIFE[0]))
    runtime.fails = fail
    for _ in range(3):
        logits = np.array(session.run(step_of(*LIFE[1])))
    runtime.fails = lambda graph_id: None
    np.testing.assert_array_equal(session.run(step_of(*LIFE[1])), logits)
    np.testing.assert_array_equal(session.run(step_of(*LIFE[0])), expected)
    assert set(runtime.graph_ids) == {NO_GRAPH}
    assert caplog.text.count("no CUDA graph for decode steps") == 1


def test_what_fails_without_a_graph_too_leaves_the_bucket_its_graph(opened):
    session, runtime, _ = opened

    def fail(graph_id: int) -> None:
        raise RuntimeError("Failed to allocate memory for requested buffer of size 1024")

    runtime.fails = fail
    with pytest.raises(RuntimeError, match="allocate"):
        session.run(step_of(*LIFE[1]))
    runtime.fails = lambda graph_id: None
    session.run(step_of(*LIFE[1]))
    assert runtime.graph_ids == [1]


def test_without_graphs_steps_are_padded_all_the_same(tmp_path):
    session, runtime, _ = open_on_host(tmp_path, graphs=False)
    live(session)
    assert set(runtime.graph_ids) == {NO_GRAPH}
    assert GraphShape(4, 2) in session._bound
    assert not session.warm()
    session.close()


def test_warming_captures_every_common_shape_and_spoils_no_block(tmp_path):
    session, runtime, _ = open_on_host(tmp_path, max_sequences=3)
    filled = session.run(step_of(*LIFE[0])).copy()
    before = [pool[:-1].copy() for pool in session._bindings.cache.pools.values()]
    assert len(filled) == 3
    count = 1
    while session.warm():
        count += 1
    columns = [2**power for power in range(6)]
    assert set(session._bound) == {GraphShape(batch, wide) for batch in (1, 2, 4) for wide in columns}
    assert count == len(session._bound) == int(session.describe()["graphs"])
    for pool, old in zip(session._bindings.cache.pools.values(), before, strict=True):
        np.testing.assert_array_equal(pool[:-1], old)
    session.close()


def test_bounds_hold_for_every_step_of_a_bucket():
    for columns in (1, 2, 4, 64):
        longest, at_most, at_least = attention_bounds(GraphShape(8, columns), 128)
        contexts = range(128 * (columns // 2) + 1, 128 * columns + 1)
        assert longest == 1
        assert at_least <= contexts[0] <= contexts[-1] <= at_most


# Memory


def test_the_largest_steps_are_as_large_as_they_may_be():
    prompt, decoding = largest_steps(700, max_sequences=9, max_scored=5, max_context=CONTEXT, columns=32)
    assert (prompt.num_tokens, prompt.num_seqs, prompt.num_logits) == (700, 2, 9 + 5)
    assert (decoding.num_tokens, decoding.num_seqs, decoding.num_logits) == (9, 9, 9)
    for step in (prompt, decoding):
        assert step.max_context == CONTEXT == step.positions.max() + 1
        assert (step.block_table == 0).all()


def test_reserve_gives_a_share_of_what_is_free(tmp_path):
    runtime, device = HostRuntime(), HostDevice()
    session = OnnxCudaSession(lower_for_host(write_small(tmp_path)), device, runtime)
    assert session.reserve(64, 8, max_scored=5) == int(0.9 * device.free_bytes()[0])
    assert runtime.graph_ids == [NO_GRAPH, NO_GRAPH]
    session.allocate(3)
    assert {len(pool) for pool in session._bindings.cache.pools.values()} == {4}
    assert len(session._logits) >= 8 + 5 + MAX_PADDING
    session.close()


def test_block_bytes_are_those_of_the_pools(opened):
    session, _, _ = opened
    pools = session._bindings.cache.pools.values()
    assert sum(pool.nbytes for pool in pools) == (NUM_BLOCKS + 1) * session.shape.block_bytes
    assert session.shape.block_tokens == BLOCK_TOKENS
    assert (session.shape.vocab_size, session.shape.max_context) == (VOCABULARY, CONTEXT)


def test_a_step_that_does_not_fit_is_a_model_error(tmp_path):
    def fail(graph_id: int) -> None:
        raise RuntimeError("Failed to allocate memory for requested buffer of size 99")

    session = OnnxCudaSession(lower_for_host(write_small(tmp_path)), HostDevice(), HostRuntime(fails=fail))
    with pytest.raises(
        ModelError, match="cannot take a step of 64 tokens and 8 sequences: Failed to allocate"
    ):
        session.reserve(64, 8)


def test_close_frees_the_cache_and_may_come_twice(tmp_path):
    session, _, device = open_on_host(tmp_path)
    session.run(step_of(*LIFE[1]))
    session.close()
    session.close()
    assert all(session.describe().values())
    held = sum(size for _, size in device._guarded.values())
    assert held < session.shape.block_bytes


# Faults


def test_a_failed_step_leaves_the_session_usable(opened):
    session, runtime, _ = opened
    first, second = (np.array(session.run(step_of(*sequences))) for sequences in LIFE[:2])

    def fail(graph_id: int) -> None:
        raise RuntimeError("INVALID_ARGUMENT : something about one step")

    runtime.fails = fail
    with pytest.raises(RuntimeError, match="one step"):
        session.run(step_of(*LIFE[2]))
    runtime.fails = lambda graph_id: None
    np.testing.assert_array_equal(session.run(step_of(*LIFE[0])), first)
    np.testing.assert_array_equal(session.run(step_of(*LIFE[1])), second)


@pytest.mark.parametrize("said_by", ["the run", "the device"])
@pytest.mark.parametrize("life", LIFE[:2])
def test_a_lost_device_is_no_exception_that_a_step_survives(opened, monkeypatch, said_by, life):
    session, runtime, device = opened
    words = "CUDA failure 700: an illegal memory access was encountered"

    def fail(graph_id: int) -> None:
        raise RuntimeError(words if said_by == "the run" else "INVALID_ARGUMENT : whatever")

    def synchronize() -> None:
        raise DeviceError(f"the GPU failed: {words}")

    runtime.fails = fail
    if said_by == "the device":
        monkeypatch.setattr(device, "synchronize", synchronize)
    with pytest.raises(DeviceLost, match="host: .*illegal memory access"):
        session.run(step_of(*life))
    assert not issubclass(DeviceLost, Exception)


def test_a_capture_that_does_not_end_loses_the_device(opened, monkeypatch):
    """What followed would be recorded and never computed, without an error."""
    session, runtime, device = opened

    def fail(graph_id: int) -> None:
        if graph_id >= 0:
            raise RuntimeError("CUDA failure 900: operation not permitted when stream is capturing")

    def synchronize() -> None:
        raise DeviceError("the GPU failed: cudaErrorStreamCaptureUnsupported: ... when stream is capturing")

    runtime.fails = fail
    monkeypatch.setattr(device, "synchronize", synchronize)
    with pytest.raises(DeviceLost, match="capturing"):
        session.run(step_of(*LIFE[1]))


def test_without_cuda_the_error_says_what_to_install(tmp_path):
    with pytest.raises(ModelError, match=r"cuda:0: this onnxruntime has no CUDAExecutionProvider; install"):
        open_decoder(write_small(tmp_path), DecoderSettings("cuda:0"))
