"""Recurrent layers on the host's stand-in for a GPU against numpy, for sizes that no case of the GPU check has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cuda import recurrent
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST
from tools.lab.gpu_check.correctness.recurrent_cases import (
    ELEMENTS,
    EPSILON,
    Draw,
    compare,
    conv_cell,
    delta_cell,
    mamba_cell,
    random_records,
    run_records,
)

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(1, 140))
DRAWN = {
    "seed": st.integers(0, 2**32 - 1),
    "element": st.sampled_from(sorted(ELEMENTS)),
    "sequences": st.integers(1, 4),
}


def drawn(device, seed, element, sequences):
    random = np.random.default_rng(seed)
    return Draw(device, random, ELEMENTS[element], random_records(random, sequences, 5))


@given(channels=st.integers(1, 300), kernel=st.integers(1, 9), **DRAWN)
def test_convolutions_of_any_size(device, channels, kernel, seed, element, sequences):
    made = drawn(device, seed, element, sequences)
    (rows,), (real,) = made.of_tokens(made.normal(made.records.num_tokens, channels))
    weight, bias = made.normal(channels, 1, kernel), made.normal(channels)
    states, before = made.states(channels, kernel)
    constants = device.upload(weight), device.upload(bias), device.upload(made.records.steps)
    mixed = recurrent.short_convolution(device, rows, *constants, states)
    compare(made, mixed, states, run_records(made.records, before, conv_cell(real, weight, bias)))


@given(sizes=SIZES, **DRAWN)
def test_delta_nets_of_any_size(device, sizes, seed, element, sequences):
    case, (groups, times, value_size, key_size) = drawn(device, seed, element, sequences), sizes
    count, heads = case.records.num_tokens, groups * times
    inputs, real = case.of_tokens(
        case.normal(count, groups, key_size),
        case.normal(count, groups, key_size),
        case.normal(count, heads, value_size),
        -np.abs(case.normal(count, heads)),
        case.rng.random((count, heads), np.float32),
    )
    states, before = case.states(heads, value_size, key_size)
    mixed = recurrent.gated_delta_net(device, inputs, EPSILON, device.upload(case.records.steps), states)
    compare(case, mixed, states, run_records(case.records, before, delta_cell(real, key_size)))


@given(sizes=SIZES, **DRAWN)
def test_state_spaces_of_any_size(device, sizes, seed, element, sequences):
    case, (groups, times, head_size, state_size) = drawn(device, seed, element, sequences), sizes
    count, heads = case.records.num_tokens, groups * times
    inputs, real = case.of_tokens(
        case.normal(count, heads, head_size),
        np.abs(case.normal(count, heads)),
        case.normal(count, groups, state_size),
        case.normal(count, groups, state_size),
    )
    decay = -np.exp(case.normal(heads))
    states, before = case.states(heads, head_size, state_size)
    mixed = recurrent.mamba2(device, inputs, device.upload(decay), device.upload(case.records.steps), states)
    compare(case, mixed, states, run_records(case.records, before, mamba_cell(real, decay)))


def test_rows_beyond_the_widest_kernel_are_refused(one_device):
    states = one_device.zeros((1, 1, 1, 300), np.float32)
    row = one_device.zeros((1, 1, 300), np.float32)
    one = one_device.zeros((1, 1, 1), np.float32)
    flat = one_device.zeros((1, 1), np.float32)
    steps = one_device.upload(np.array([[0, 1, 0, ONLY_LAST, NO_STATE, 0]], np.int32))
    with pytest.raises(ValueError, match="rows of at most 256 numbers, not 300"):
        recurrent.gated_delta_net(one_device, (row, row, one, flat, flat), EPSILON, steps, states)


def test_a_record_names_what_a_sequence_reads_and_writes():
    """Records of a new sequence of 3 tokens, and of one of 4 after 9 others that stores each fifth state."""
    starts, past = np.array([0, 3, 7], np.int32), np.array([0, 9], np.int32)
    table, interval = np.array([[NO_STATE, 4, -7], [2, 5, 6]], np.int32), np.array([ONLY_LAST, 5], np.int32)
    assert recurrent.records(starts, past, interval, table).tolist() == [
        [0, 3, 0, ONLY_LAST, NO_STATE, 4, -7],
        [3, 7, 4, 5, 2, 5, 6],
    ]
