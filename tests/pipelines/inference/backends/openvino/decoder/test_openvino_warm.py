"""What a session does between requests, and that its cache is a hard bound."""

from __future__ import annotations

import numpy as np
import pytest
from breadth import after
from lone_steps import step
from small_onnx_decoders import VOCABULARY, write_small

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.warmup import NUM_CHANGES
from pipelines.inference.backends.openvino.paging.step_inputs import warmup_shapes
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits
from pipelines.wire.sampling_params import SamplingParams

NUM_BLOCKS = 6
PROMPT = np.random.default_rng(1).integers(3, VOCABULARY, size=50)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_small(tmp_path_factory.mktemp("small"), softcap=0.0, rotary=True)


@pytest.fixture
def session(path):
    opened = OpenVINOSession(path)
    opened.reserve(64, 4)
    opened.allocate(NUM_BLOCKS)
    yield opened
    opened.close()


def test_the_cache_is_of_bytes_when_nobody_says_otherwise(session):
    assert session.describe()["kv_cache"] == "u8"


def test_warming_ends_and_leaves_the_cache_as_it_was(session):
    session.run(step(PROMPT[:40], 0, [3, 4], []))
    expected = session.run(step(PROMPT[40:], 40, [3, 4], [9])).copy()
    before = {name: blocks[:NUM_BLOCKS].copy() for name, blocks in session._memory.bytes.items()}
    turns = 0
    while session.warm():
        turns += 1
        assert turns < 100
    for name, blocks in session._memory.bytes.items():
        np.testing.assert_array_equal(blocks[:NUM_BLOCKS], before[name])
    session.run(step(PROMPT[:40], 0, [3, 4], []))  # tokens written twice to a u8 block round differently
    np.testing.assert_array_equal(session.run(step(PROMPT[40:], 40, [3, 4], [9])), expected)
    assert not session.warm()
    assert set(session.step_times_s) == {1, 2, 3, 4}
    assert min(session.step_times_s.values()) > 0
    assert len(session._warmup.changes_s) == NUM_CHANGES
    assert session.shape_change_s == max(0.0, sorted(session._warmup.changes_s)[1])


@pytest.mark.parametrize("num_tokens", after(2, [64, 1, 40, 2]))
def test_the_first_step_after_warming_may_have_any_shape(session, num_tokens):
    """Also that of the last warm-up step: a prompt of as many tokens as a new server's first request has."""
    first = step(np.resize(PROMPT, num_tokens), 0, [3, 4], [num_tokens - 1])
    expected = session.run(first).copy()
    while session.warm():
        pass
    np.testing.assert_array_equal(session.run(first), expected)


def test_a_session_without_step_sizes_warms_nothing_but_memory(path):
    opened = OpenVINOSession(path)
    opened.allocate(2)
    turns = 0
    while opened.warm():
        turns += 1
        assert turns < 100
    assert opened.step_times_s == {}, "no step was tried"
    opened.close()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (
            (512, 64),
            [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (8, 1), (16, 1), (32, 1), (64, 1), (1, 128)],
        ),
        ((16, 5), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (1, 16)]),
        ((8, 1), [(1, 1), (1, 8)]),
    ],
)
def test_shapes_that_are_tried_are_within_the_largest_step(sizes, expected):
    assert warmup_shapes(*sizes) == expected


def test_the_cache_never_grows_and_no_step_names_a_block_beyond_it(session):
    """More sequences than the pool can hold, so that they preempt each other, in steps that need no padding."""
    memory = {name: (blocks.ctypes.data, blocks.nbytes) for name, blocks in session._memory.bytes.items()}
    assert sum(size for _, size in memory.values()) == (NUM_BLOCKS + 1) * session.shape.block_bytes
    spare = {name: blocks[NUM_BLOCKS].copy() for name, blocks in session._memory.bytes.items()}
    named: list[int] = []

    def body(context):
        packed = context.step
        used = np.arange(packed.block_table.shape[1]) < packed.num_blocks[:, None]
        named.extend(packed.block_table[used].tolist())
        return sample(Logits(session.run(packed), context))

    engine = GenerationEngine(
        StepBody(body),
        EngineSettings(max_sequences=8, max_step_tokens=32),
        session.shape,
        CacheSize(NUM_BLOCKS),
        frozenset(),
    )
    for number in range(8):
        params = SamplingParams(max_tokens=40, ignore_eos=True)
        engine.submit(number, GenerationRequest([PROMPT.tolist()], params))
    while engine.has_work:
        engine.step()
    assert engine.counts().preemptions > 0
    assert set(named) == set(range(NUM_BLOCKS))
    after = {name: (blocks.ctypes.data, blocks.nbytes) for name, blocks in session._memory.bytes.items()}
    assert after == memory
    for name, blocks in session._memory.bytes.items():
        np.testing.assert_array_equal(blocks[NUM_BLOCKS], spare[name])


def test_a_slow_model_is_not_asked_for_wide_steps(session, monkeypatch):
    monkeypatch.setattr("pipelines.inference.backends.openvino.decoder.warmup.MAX_WARMUP_S", 1e-9)
    while session.warm():
        pass
    assert set(session.step_times_s) == {1}
