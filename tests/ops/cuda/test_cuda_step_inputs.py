"""Padded step inputs against numpy: slots, tables, padding rows, in own arrays and in given ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.cache_blocks import slot_mapping
from ops.cuda.step_inputs import StepInputBuffers, new_step_inputs

SCRATCH = 999


def random_step(random, num_seqs, block_tokens, most_new=5, spare_columns=2):
    """Sequences of 1 or more new tokens, with blocks enough for them and often one more."""
    new = random.integers(1, most_new + 1, num_seqs)
    past = random.integers(0, 4 * block_tokens, num_seqs)
    starts = np.concatenate([[0], np.cumsum(new)])
    num_blocks = -(-(past + new) // block_tokens) + random.integers(0, 2, num_seqs)
    columns = int(num_blocks.max(initial=1)) + spare_columns
    table = random.integers(0, SCRATCH, (num_seqs, columns))
    for row, count in enumerate(num_blocks):
        table[row, count:] = -12345  # undefined
    positions = np.arange(starts[-1]) - np.repeat(starts[:-1] - past, new)
    return SimpleNamespace(
        token_ids=random.integers(0, 50_000, starts[-1]),
        positions=positions,
        starts=starts.astype(np.int32),
        num_past=past.astype(np.int32),
        block_table=table.astype(np.int32),
        num_blocks=num_blocks.astype(np.int32),
        logit_indices=random.integers(0, starts[-1], random.integers(0, num_seqs + 1)),
    )


def check(feed, step, block_tokens, spare):
    num_tokens, num_seqs, num_logits = len(step.token_ids), len(step.num_past), len(step.logit_indices)
    tokens, sequences, columns, logits = feed.shape
    assert (tokens, sequences) == (num_tokens + spare, num_seqs + spare)
    zeros = [0] * spare
    assert feed.input_ids.tolist() == [*step.token_ids, *zeros]
    assert feed.position_ids.tolist() == [*step.positions, *zeros]
    assert feed.past_seqlens.tolist() == [*step.num_past, *zeros]
    last = step.starts[-1]
    assert feed.cumulative_sequence_length.tolist() == [*step.starts, *range(last + 1, last + spare + 1)]
    slots = slot_mapping(step.block_table, step.starts, step.positions, block_tokens)
    assert feed.slot_mapping.tolist() == [*slots, *[-1] * spare]
    assert feed.logits_indices.tolist() == [*step.logit_indices, *[0] * (logits - num_logits)]
    expected = np.full((sequences, columns), SCRATCH)
    for row, count in enumerate(np.minimum(step.num_blocks, columns)):
        expected[row, :count] = step.block_table[row, :count]
    np.testing.assert_array_equal(feed.block_table, expected)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.integers(1, 40),
    st.sampled_from([1, 3, 16]),
    st.integers(0, 9),
    st.integers(0, 4),
    st.integers(0, 2**31),
    st.booleans(),
)
def test_a_feed_is_the_step_and_padding(one_device, num_seqs, block_tokens, spare, wider, seed, given_arrays):
    step = random_step(np.random.default_rng(seed), num_seqs, block_tokens)
    feeder = StepInputBuffers(one_device, 16, 8, 4)  # grows
    used = -(-(int(step.positions.max()) + 1) // block_tokens)
    tokens, columns = len(step.token_ids) + spare, used + wider
    into, logits = None, max(1, len(step.logit_indices))
    if given_arrays:
        logits += spare
        into = new_step_inputs(one_device, tokens, num_seqs + spare, columns, logits)
    feed = feeder.bind(step, block_tokens, tokens, num_seqs + spare, columns, SCRATCH, into)
    assert feed.shape[2:] == (columns, logits)
    assert into is None or feed is into
    check(feed, step, block_tokens, spare)


def test_all_orders_of_threads_and_many_blocks_of_them(device):
    step = random_step(np.random.default_rng(1), 300, 4, most_new=3)
    columns = step.block_table.shape[1]
    feed = StepInputBuffers(device, 1000, 400, columns).bind(
        step, 4, len(step.token_ids) + 20, 320, columns, SCRATCH
    )
    check(feed, step, 4, 20)


def test_own_arrays_are_used_again_and_there_is_one_copy_and_one_launch(one_device):
    feeder = StepInputBuffers(one_device, 64, 8, 8)
    step = random_step(np.random.default_rng(2), 8, 4)
    shape = len(step.token_ids), 8, step.block_table.shape[1]
    first = feeder.bind(step, 4, *shape, SCRATCH)
    one_device.launches.clear()
    second = feeder.bind(step, 4, *shape, SCRATCH)
    assert one_device.launches == ["build_step_inputs"]
    for name in first.__dataclass_fields__:
        assert getattr(first, name).ctypes.data == getattr(second, name).ctypes.data


def test_slots_of_large_caches_fit(one_device):
    """The largest slot of an int32."""
    step = random_step(np.random.default_rng(3), 1, 1, most_new=1, spare_columns=0)
    step.positions[:], step.num_past[:], step.num_blocks[:] = 15, 15, 1
    step.block_table = np.array([[2**27 - 1]], np.int32)
    feed = StepInputBuffers(one_device, 1, 1, 1).bind(step, 16, 1, 1, 1, SCRATCH)
    assert feed.slot_mapping.tolist() == [2**31 - 1]


def test_what_does_not_fit_is_refused(one_device):
    feeder = StepInputBuffers(one_device, 64, 8, 8)
    step = random_step(np.random.default_rng(4), 3, 4)
    tokens, columns = len(step.token_ids), step.block_table.shape[1]
    for padded in [(tokens, 4, columns), (tokens + 2, 4, columns), (tokens - 1, 2, columns)]:
        with pytest.raises(ValueError, match="do not pad"):
            feeder.bind(step, 4, *padded, SCRATCH)
    step.positions[:] = 4 * columns
    with pytest.raises(ValueError, match="do not fit"):
        feeder.bind(step, 4, tokens, 3, columns, SCRATCH)
    step.positions[:] = 0
    with pytest.raises(ValueError, match="step inputs of"):
        feeder.bind(
            step, 4, tokens, 3, columns, SCRATCH, new_step_inputs(one_device, tokens, 3, columns + 1, 3)
        )
