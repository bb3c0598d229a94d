"""Room for draft tokens, draft tokens put into steps, and runs taken out of what was sampled."""

from __future__ import annotations

import random

import numpy as np
import pytest
from breadth import after
from engine_rig import Rig, alone
from oracle_speculator import OracleSpeculator

from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.sequences.policy import blocks_for, share_draft_budget
from pipelines.inference.engine.speculation.accepted_runs import AcceptedRun, Chosen, first_ids, runs_of
from pipelines.telemetry.engine_counts import Counts
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import SamplingParams


def test_everyone_gets_what_there_is_first_come_first():
    assert share_draft_budget([4, 4, 4], [10, 10, 10], 16, tokens=9, blocks=0) == [4, 4, 1]


def test_who_gets_no_block_fills_its_last_one():
    assert share_draft_budget([5, 5, 5], [16, 15, 14], 16, tokens=99, blocks=1) == [5, 1, 2]


@pytest.mark.parametrize("seed", after(50, range(200)))
def test_room_is_bounded(seed):
    draw = random.Random(seed)
    block_tokens, tokens, blocks = draw.randint(1, 9), draw.randint(0, 20), draw.randint(0, 4)
    ends = [draw.randint(1, 40) for _ in range(draw.randint(1, 6))]
    wanted = [draw.randint(0, 12) for _ in ends]
    rooms = share_draft_budget(wanted, ends, block_tokens, tokens, blocks)
    assert all(0 <= room <= most for room, most in zip(rooms, wanted, strict=True))
    taken = sum(
        blocks_for(end + room, block_tokens) - blocks_for(end, block_tokens)
        for end, room in zip(ends, rooms, strict=True)
    )
    assert sum(rooms) <= tokens
    assert taken <= blocks
    if sum(wanted) <= tokens and blocks >= 12 * len(ends):
        assert rooms == wanted


def test_without_guesses_each_token_is_chosen_for_a_row():
    sampled = Sampled(np.array([7, 9]), [])
    assert first_ids(sampled).tolist() == [7, 9]
    assert list(runs_of(sampled)) == [Chosen(7, None, None), Chosen(9, None, None)]


def test_runs_are_taken_apart():
    told = [TokenLogprobs(-float(k), 1, [], []) for k in range(4)]
    drafted = TokenLogprobs(-0.5, 1, [], [])
    sampled = Sampled(
        np.array([7, 8, 9, 5]),
        [*told],
        num_tokens=np.array([1, 2, 1]),
        num_drafted=np.array([3, 1, 0]),
        draft_logprobs=[None, drafted, None, None],
    )
    assert first_ids(sampled).tolist() == [7, 8, 5]
    assert list(runs_of(sampled)) == [
        Chosen(7, told[0], AcceptedRun(3, [], [])),
        Chosen(8, told[1], AcceptedRun(1, [(9, told[2])], [drafted])),
        Chosen(5, told[3], None),
    ]


def test_runs_are_counted_by_place():
    counts = Counts()
    for num_drafted, num_accepted in ((3, 0), (3, 2), (1, 1)):
        counts.count_run(num_drafted, num_accepted)
    assert (counts.drafts, counts.draft_tokens, counts.accepted_tokens) == (3, 7, 3)
    assert counts.accepted_per_position == [2, 1]


def foreseen(rig: Rig, prompt: list[int], errs: float = 0.0, **params: object) -> list[int]:
    wanted = SamplingParams(**{"temperature": 0.0, **params})  # type: ignore[arg-type]
    text = alone(prompt, wanted).token_ids
    OracleSpeculator(rig, lambda key, choice: text, random.Random(1), errs)
    return text


def test_guesses_that_come_true_save_steps():
    rig = Rig(num_draft_tokens=8)
    text = foreseen(rig, [1, 2, 3], max_tokens=60)
    rig.submit("a", [1, 2, 3], max_tokens=60)
    rig.run()
    last = rig.texts["a", 0].outputs[-1].piece.speculation
    assert rig.texts["a", 0].token_ids == text
    assert len(rig.steps) < 30
    assert 0 < last.num_accepted == rig.engine.counts().accepted_tokens < 60


def test_a_request_that_wants_more_guesses_takes_no_more_room():
    rig = Rig(num_draft_tokens=3)
    foreseen(rig, [1, 2, 3], max_tokens=20)
    rig.submit("a", [1, 2, 3], max_tokens=20, num_draft_tokens=12)
    rig.run()
    assert max(step.draft_budget.max() for step in rig.steps) == 3


def test_a_request_may_want_no_guesses():
    rig = Rig(num_draft_tokens=8)
    text = foreseen(rig, [1, 2, 3], max_tokens=20)
    rig.submit("a", [1, 2, 3], max_tokens=20, num_draft_tokens=0)
    rig.run()
    assert rig.texts["a", 0].token_ids == text
    assert len(rig.steps) == 20
    assert rig.engine.counts().drafts == 0


def test_the_last_tokens_have_no_room_behind_them():
    rig = Rig(num_draft_tokens=8)
    foreseen(rig, [1, 2, 3], max_tokens=2)
    rig.submit("a", [1, 2, 3], max_tokens=2)
    rig.run()
    assert [step.draft_budget.tolist() for step in rig.steps] == [[0], [0]]


def test_guesses_behind_the_end_count_as_wrong():
    prompt, rig = [1, 2, 3], Rig(num_draft_tokens=8)
    text = foreseen(rig, prompt, max_tokens=60)
    end = next(token_id for token_id in text[5:] if text.count(token_id) == 1)
    rig.submit("a", prompt, max_tokens=60, stop_token_ids=[end])
    rig.run()
    said = rig.texts["a", 0]
    assert said.token_ids == text[: text.index(end) + 1]
    assert said.outputs[-1].piece.speculation.num_accepted <= len(said.token_ids)
    assert rig.engine.counts().accepted_tokens == said.outputs[-1].piece.speculation.num_accepted


def test_what_guesses_fill_is_found_by_the_next_request():
    rig = Rig(num_draft_tokens=8, block_tokens=4)
    text = foreseen(rig, [1, 2, 3], max_tokens=20)
    rig.submit("a", [1, 2, 3], max_tokens=20)
    rig.run()
    rig.draft_token = lambda step: step
    rig.submit("b", [1, 2, 3, *text, 9], max_tokens=1)
    rig.run()
    assert rig.texts["b", 0].num_cached == 20  # all of 22, the last draft tokens of "a" among them
