"""A step's sequences are split into calls so that nothing is lost and padding costs less than calls."""

from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lone_steps import step, together

from ops.cache_blocks import slot_mapping
from pipelines.inference.backends.onnxruntime.cpu.model_calls import CallCosts, group_sequences, plan_calls

BLOCK_TOKENS, SPARE = 4, 77

shapes = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=8)
costs = st.builds(
    CallCosts, st.sampled_from([0.0, 5.0, 100.0, 1e9]), st.just(1.0), st.sampled_from([0.1, 1.0])
)


def groups_of(rows: list[tuple[int, int]], costs: CallCosts) -> list[list[int]]:
    """Of (new tokens, past tokens)."""
    new, past = np.array(rows, np.int32).T
    return [group.tolist() for group in group_sequences(new, new + past, costs)]


def total(groups: list[list[int]], rows: list[tuple[int, int]], costs: CallCosts) -> float:
    return sum(
        costs.of(len(group), max(rows[row][0] for row in group), max(sum(rows[row]) for row in group))
        for group in groups
    )


@given(shapes, costs)
def test_every_sequence_is_in_one_group(rows, costs):
    groups = groups_of(rows, costs)
    assert sorted(chain(*groups)) == list(range(len(rows)))
    assert all(group == sorted(group) for group in groups)


@given(shapes, costs)
def test_groups_cost_no_more_than_a_call_for_each(rows, costs):
    apart = [[row] for row in range(len(rows))]
    assert total(groups_of(rows, costs), rows, costs) <= total(apart, rows, costs) + 1e-6


def test_like_sequences_are_one_call_and_unlike_ones_several():
    costs = CallCosts(call=1000, key=1, pair=0.1)
    assert groups_of([(1, 100)] * 8, costs) == [list(range(8))]
    assert groups_of([(1, 100), (1, 90), (200, 0), (1, 110)], costs) == [[0, 1, 3], [2]]
    assert groups_of([(1, 9000), (1, 100), (1, 90)], costs) == [[1, 2], [0]]
    assert groups_of([(1, 9000), (1, 100), (1, 90)], CallCosts(1e9, 1, 0.1)) == [[0, 1, 2]]


@given(shapes, costs, st.integers(0, 9))
def test_calls_say_what_the_step_says(rows, costs, seed):
    """Every token, with its position, slot and table, in one call; every row of logits from one."""
    packed = random_step(rows, seed)
    calls = plan_calls(packed, BLOCK_TOKENS, SPARE, costs)
    slots = slot_mapping(packed.block_table, packed.starts, packed.positions, BLOCK_TOKENS)
    expected = sorted(zip(packed.token_ids, packed.positions, slots, strict=True))
    calls_inputs = [call.inputs for call in calls]
    named = ("input_ids", "position_ids", "slot_mapping")
    rows_of_calls = [
        token for inputs in calls_inputs for token in zip(*(inputs[name] for name in named), strict=True)
    ]
    assert sorted(rows_of_calls) == expected
    tokens = np.full(packed.num_logits, -1)
    for call in calls:
        tokens[call.logits] = call.inputs["input_ids"][call.inputs["logits_indices"]][: len(call.logits)]
        assert len(call.inputs["logits_indices"]) == max(1, len(call.logits))
    assert (tokens == packed.token_ids[packed.logit_indices]).all()


@given(shapes, costs, st.integers(0, 9))
def test_each_call_is_a_step_of_its_own(rows, costs, seed):
    for call in plan_calls(random_step(rows, seed), BLOCK_TOKENS, SPARE, costs):
        starts, past, table = (
            call.inputs[name] for name in ("cumulative_sequence_length", "past_seqlens", "block_table")
        )
        new = np.diff(starts)
        assert starts[0] == 0
        assert starts[-1] == len(call.inputs["input_ids"])
        assert table.shape == (len(past), (-(-(past + new) // BLOCK_TOKENS)).max())
        slots = slot_mapping(table, starts, call.inputs["position_ids"], BLOCK_TOKENS)
        assert (slots == call.inputs["slot_mapping"]).all()
        used = np.arange(table.shape[1]) < (-(-(past + new) // BLOCK_TOKENS))[:, None]
        assert (table[~used] == SPARE).all()
        types = {name: array.dtype for name, array in call.inputs.items()}
        wide = ("input_ids", "position_ids", "logits_indices")
        assert types == {name: np.int64 if name in wide else np.int32 for name in types}
        assert all(array.flags.c_contiguous for array in call.inputs.values())


def random_step(rows: list[tuple[int, int]], seed: int):
    """Its ids are all different; some of its sequences give logits, some of those twice."""
    draw, parts, block, token = np.random.default_rng(seed), [], 0, 0
    for new, past in rows:
        count = -(-(new + past) // BLOCK_TOKENS)
        logit_indices = [[], [new - 1], [new - 1, new - 1]][draw.integers(3)]
        parts.append(
            step(np.arange(token, token + new), past, list(range(block, block + count)), logit_indices)
        )
        block, token = block + count, token + new
    return together(parts)
