"""A session by itself: sizes, steps without logits, copied blocks, calls of unlike lengths, the GIL."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import onnx_ir as ir
import pytest
from lone_steps import step, together
from patience import PATIENCE_S
from small_onnx_decoders import VOCABULARY, small_decoder

from pipelines.inference.backends.host_memory import MAX_CACHE_BYTES
from pipelines.inference.backends.onnxruntime.cpu import decoder_session as cpu
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.device_errors import ModelError

ONE_THREAD = OnnxCpuSettings(threads=1)
PROMPT = np.random.default_rng(1).integers(3, VOCABULARY, size=50)


@pytest.fixture
def open_small(monkeypatch, tmp_path):
    """`open_small(element_type)` → a session over a decoder that is read from no file."""

    def make(element_type: str = "f32", settings: OnnxCpuSettings = ONE_THREAD) -> OnnxCpuSession:
        monkeypatch.setattr(cpu, "read_decoder", lambda path: small_decoder(element_type))
        return OnnxCpuSession(tmp_path / "model.onnx", settings)

    return make


@pytest.fixture
def session(open_small):
    opened = open_small()
    opened.allocate(8)
    yield opened
    opened.close()


def test_facts_are_those_of_the_model(session):
    assert (session.shape.block_tokens, session.shape.vocab_size, session.shape.max_context) == (
        16,
        VOCABULARY,
        512,
    )
    layers, sides, heads, head_size, float32_bytes = 2, 2, 1, 16, 4
    assert session.shape.block_bytes == layers * sides * heads * 16 * head_size * float32_bytes
    facts = session.describe()
    assert (facts["device"], facts["precision"], facts["kv_cache"]) == ("cpu", "f32", "f32")
    assert facts["engine"].startswith("onnxruntime 1.")


def test_logits_are_writable_float32(session):
    logits = session.run(step(PROMPT, 0, [0, 1, 2, 3], [49, 10]))
    assert (logits.shape, logits.dtype) == ((2, VOCABULARY), np.float32)
    logits[:] = 0


def test_steps_write_their_logits_to_one_memory(session):
    """No array is made and no page touched anew for each step."""
    first = session.run(step(PROMPT, 0, [0, 1, 2, 3], [49]))
    second = session.run(step([5], 50, [0, 1, 2, 3], [0]))
    assert first.ctypes.data == second.ctypes.data


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 49])
def test_a_chunk_without_logits_still_fills_the_cache(session, cut):
    whole = session.run(step(PROMPT, 0, [0, 1, 2, 3], [49])).copy()
    blocks = [7, 4, 6, 5]
    assert session.run(step(PROMPT[:cut], 0, blocks, [])).shape == (0, VOCABULARY)
    rest = session.run(step(PROMPT[cut:], cut, blocks, [49 - cut]))
    np.testing.assert_allclose(rest, whole, rtol=1e-4, atol=1e-5)


def test_a_copied_block_holds_the_same_keys_and_values(session):
    session.run(step(PROMPT[:40], 0, [3, 4, 5], []))
    expected = session.run(step(PROMPT[40:], 40, [3, 4, 5, 6], [9])).copy()
    session.run(step(PROMPT[:40], 0, [3, 4, 5], []))
    copied = session.run(step(PROMPT[40:], 40, [3, 4, 7, 6], [9], copies=[(5, 7)]))
    np.testing.assert_array_equal(copied, expected)


def unlike() -> list:
    """Decoding sequences around prompt chunks; the prompts' pasts are computed before."""
    return [
        step([9], 20, [0, 1], [0]),
        step(PROMPT[20:40], 20, [2, 3, 4], [19, 3]),
        step([11], 3, [5], [0]),
        step(PROMPT[:3], 0, [6], []),
        step(PROMPT[30:45], 0, [7], [14, 14]),
    ]


@pytest.mark.parametrize("call_cost", [0.0, 1e12])
def test_sequences_in_one_step_do_not_touch_each_other(session, monkeypatch, call_cost):
    """Computed in one call, or each kind in a call of its own: logits stand in the order asked for."""
    monkeypatch.setattr(session, "_costs", cpu.CallCosts(call_cost, 1.0, 1.0))
    for blocks, count in (([0, 1], 20), ([2, 3, 4], 20), ([5], 3)):
        session.run(step(PROMPT[:count], 0, blocks, []))
    alone = np.concatenate([session.run(one).copy() for one in unlike()])
    np.testing.assert_allclose(session.run(together(unlike())), alone, rtol=1e-4, atol=1e-5)


def test_a_step_is_computed_with_the_gil_released(session):
    """With a switch interval of minutes another thread runs only while the session lets it."""
    turns, ends = [0], threading.Event()

    def count() -> None:
        while not ends.is_set():
            turns[0] += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(100)
        other.start()
        before, deadline = turns[0], time.monotonic() + PATIENCE_S
        while turns[0] == before and time.monotonic() < deadline:
            session.run(step(PROMPT, 0, [0, 1, 2, 3], [49]))
        assert turns[0] > before
    finally:
        sys.setswitchinterval(interval)
        ends.set()
        other.join()


def test_half_precision_is_close_to_full(open_small, session):
    half = open_small("f16")
    half.allocate(8)
    assert half.shape.block_bytes == session.shape.block_bytes // 2
    both = [one.run(step(PROMPT, 0, [3, 1, 2, 0], [49]))[0].copy() for one in (half, session)]
    np.testing.assert_allclose(*both, atol=0.05)


def test_a_type_without_kernels_says_what_to_export_instead(open_small):
    with pytest.raises(
        ModelError, match=r"model\.onnx: ONNX Runtime .* implementation .*--weights fp32 or int8"
    ):
        open_small("bf16")


def test_the_default_cache_leaves_memory_free(open_small):
    assert 0 < open_small().reserve(512, 64) <= MAX_CACHE_BYTES


def test_there_is_no_host_cache_beside_a_cache_on_the_host(open_small):
    session = open_small()
    assert not session.can_swap
    with pytest.raises(ValueError, match="no other memory to swap it to"):
        session.allocate(2, 1)


def test_a_session_may_be_closed_by_each_of_its_sharers(open_small):
    session = open_small()
    session.allocate(2)
    session.close()
    session.close()
    assert session.describe()["device"] == "cpu"


def test_what_stood_in_a_block_before_does_not_matter(session):
    """Not even numbers that are none, as a sequence leaves that overflowed."""
    expected = session.run(step(PROMPT, 0, [0, 1, 2, 3], [49, 20])).copy()
    for blocks in session._cache._blocks.values():
        blocks[:-1] = 0xFF
    np.testing.assert_array_equal(session.run(step(PROMPT, 0, [4, 2, 6, 1], [49, 20])), expected)
    for blocks in session._cache._blocks.values():
        blocks[[0, 3, 5, 7]] = 0xFF
    for begin, end in ((0, 16), (16, 33), (33, 34), (34, 50)):
        logits = session.run(step(PROMPT[begin:end], begin, [5, 0, 7, 3], [end - begin - 1]))
    np.testing.assert_allclose(logits, expected[:1], rtol=1e-4, atol=1e-5)


def test_the_cache_is_where_the_graph_writes(session):
    """The graph reads and writes the arrays that the session owns, which stay where they are."""
    blocks = session._cache._blocks["key", 0]
    where = blocks.ctypes.data
    session.run(step(PROMPT, 0, [4, 2, 6, 1], [49]))
    written = np.flatnonzero(blocks.any(axis=1)).tolist()
    assert written == [1, 2, 4, 6, 8], "four of the sequence, and the last that warming up wrote to"
    assert blocks.ctypes.data == where
    assert int(ir.DataType.FLOAT) == int(session._layout.element_type)
