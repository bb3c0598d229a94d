"""How a step is split, and which shapes get CUDA graphs: arrays and numbers only."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE_S
from small_steps import make_step

from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import (
    BATCHES,
    MAX_ADAPTER_GRAPHS,
    MAX_BATCH,
    MAX_GRAPHS,
    MAX_PADDING,
    NO_GRAPH,
    RUNS_TO_CAPTURE,
    CaptureLock,
    GraphBuckets,
    GraphShape,
    padded_batch,
    padded_columns,
)
from pipelines.inference.backends.onnxruntime.cuda.step_parts import PartLimits, split_step
from pipelines.inference.contracts.step import Step

steps = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 20), st.integers(0, 2)), min_size=1, max_size=20
).map(lambda rows: make_step([row[:2] for row in rows], [row[2] for row in rows]))
limits = st.builds(PartLimits, st.integers(1, 8), st.none() | st.integers(1, 300))


@given(steps, limits)
def test_parts_are_the_step(step: Step, limit: PartLimits):
    """Every token, table row and logit stands in one part, in order, and says the same there."""
    parts = split_step(step, limit)
    for name in ("token_ids", "positions", "num_past", "num_blocks", "block_table", "logit_slots"):
        joined = np.concatenate([getattr(part.step, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(step, name))
    first = np.cumsum([0] + [part.step.num_tokens for part in parts])
    at = [part.step.logit_indices + begin for part, begin in zip(parts, first, strict=False)]
    np.testing.assert_array_equal(np.concatenate(at), step.logit_indices)
    assert [part.first_logit for part in parts] == np.cumsum(
        [0] + [part.step.num_logits for part in parts]
    ).tolist()[:-1]
    for part in parts:
        assert part.step.starts[0] == 0
        assert part.step.starts[-1] == part.step.num_tokens
        assert part.step.max_context == (part.step.num_past + np.diff(part.step.starts)).max()


@given(steps, limits)
def test_parts_keep_their_limits(step: Step, limit: PartLimits):
    for part in split_step(step, limit):
        new = np.diff(part.step.starts)
        assert part.step.num_seqs <= limit.sequences
        if limit.gathered_tokens is not None and new.max() > 1 and part.step.num_seqs > 1:
            assert part.step.num_seqs * part.step.max_context <= limit.gathered_tokens


def test_a_step_within_its_limits_is_not_copied():
    step = make_step([(5, 1), (0, 7)], [1, 1])
    (part,) = split_step(step, PartLimits(256))
    assert part.step is step
    assert len(part.step.copies) == 1


def test_decoding_sequences_stand_apart_when_contexts_are_gathered():
    step = make_step([(5, 1), (9, 1), (0, 7), (0, 9)], [1, 1, 1, 1])
    parts = split_step(step, PartLimits(256, 64))
    assert [part.step.num_seqs for part in parts] == [2, 2]
    assert [part.decodes for part in parts] == [True, False]
    assert [len(part.step.copies) for part in parts] == [0, 0]


@pytest.mark.parametrize(
    ("sequences", "samples", "decodes"),
    [
        ([(5, 1), (9, 1)], [1, 1], True),
        ([(5, 1), (9, 1)], [1, 0], False),
        ([(5, 1), (9, 1)], [0, 2], False),
        ([(5, 1), (9, 2)], [1, 1], False),
    ],
)
def test_what_decodes(sequences: list[tuple[int, int]], samples: list[int], decodes: bool):
    (part,) = split_step(make_step(sequences, samples), PartLimits(256))
    assert part.decodes == decodes


def test_logits_out_of_order_are_no_parts():
    step = make_step([(5, 1), (9, 1)], [1, 1])
    step.logit_indices[:] = [1, 0]
    assert len(split_step(step, PartLimits(2))) == 1
    with pytest.raises(ValueError, match="ascend"):
        split_step(step, PartLimits(1))


def test_shapes_are_rounded_up():
    for count in range(1, MAX_BATCH + 1):
        assert 0 <= padded_batch(count) - count <= MAX_PADDING
        assert padded_batch(count) in BATCHES
        assert padded_columns(count) // 2 < count <= padded_columns(count)


def test_a_shape_has_one_graph_id_and_none_has_the_reserved_one():
    """A captured id run with another shape would replay the wrong graph without a word."""
    buckets = GraphBuckets(enabled=True)
    shapes = [GraphShape(batch, columns) for batch in BATCHES for columns in (1, 2, 4)]
    ids = {buckets.of(shape).graph_id for shape in shapes}
    assert len(ids) == len(shapes)
    assert min(ids) == 1
    assert [buckets.of(shape).shape for shape in shapes] == shapes


def test_graphs_are_bounded():
    buckets = GraphBuckets(enabled=True)
    made = [buckets.of(GraphShape(1, 1, row)) for row in range(MAX_GRAPHS + 5)]
    assert [bucket.graph_id for bucket in made[MAX_GRAPHS:]] == [NO_GRAPH] * 5
    assert not made[-1].captures
    ranked = [buckets.of(GraphShape(1, 1, row, 16)) for row in range(MAX_ADAPTER_GRAPHS + 5)]
    assert [bucket.graph_id for bucket in ranked[MAX_ADAPTER_GRAPHS:]] == [NO_GRAPH] * 5
    assert len({bucket.graph_id for bucket in made + ranked}) == MAX_GRAPHS + MAX_ADAPTER_GRAPHS + 1


def test_a_failed_capture_is_said_once_and_not_tried_again(caplog: pytest.LogCaptureFixture):
    bucket = GraphBuckets(enabled=True).of(GraphShape(4, 2))
    assert bucket.captures
    with caplog.at_level(logging.WARNING):
        bucket.disable(RuntimeError("operation not permitted when stream is capturing"))
    assert (bucket.captures, bucket.captured, bucket.graph_id) == (False, False, NO_GRAPH)
    assert "Shape(batch=4, columns=2" in caplog.text
    assert "not permitted" in caplog.text


def test_missing_shapes_are_those_not_met():
    buckets = GraphBuckets(enabled=True)
    shapes = buckets.missing(max_sequences=5, max_columns=3)
    assert shapes[:4] == [GraphShape(1, 1), GraphShape(2, 1), GraphShape(4, 1), GraphShape(8, 1)]
    assert {shape.columns for shape in shapes} == {1, 2, 4}
    bucket = buckets.of(shapes[0])
    bucket.runs = RUNS_TO_CAPTURE
    assert buckets.missing(5, 3) == shapes[1:]
    assert buckets.num_captured == 1
    assert GraphBuckets(enabled=False).missing(5, 3) == []


def test_a_capture_is_put_off_while_others_call():
    lock = CaptureLock()
    with lock.device_calls(), lock.device_calls(), lock.try_capture() as granted:
        assert not granted
    with lock.try_capture() as granted:
        assert granted
    with lock.try_capture() as outer, lock.try_capture() as inner:
        assert (outer, inner) == (True, False)


def test_others_wait_for_a_capture_to_end():
    lock, order = CaptureLock(), []

    def call() -> None:
        started.set()
        with lock.device_calls():
            order.append("called")

    started, caller = threading.Event(), threading.Thread(target=call)
    with lock.try_capture() as granted:
        assert granted
        caller.start()
        started.wait()
        caller.join(timeout=0.05)
        assert caller.is_alive()
        order.append("captured")
    caller.join(timeout=PATIENCE_S)
    assert order == ["captured", "called"]


def test_a_gate_opens_again_after_errors():
    lock = CaptureLock()
    for enter in (lock.device_calls, lock.try_capture):
        with pytest.raises(ZeroDivisionError), enter():
            1 / 0  # noqa: B018
    with lock.try_capture() as granted:
        assert granted
