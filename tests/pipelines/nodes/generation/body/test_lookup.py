"""The lookup node alone: what it draft tokens, for whom, and whether it pays."""

from __future__ import annotations

import itertools
from array import array
from pathlib import Path
from random import Random

import pytest
from breadth import after
from speculation_streams import VOCAB_SIZE, copied_text, play, random_text, rows_of, step_of

from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.lookup import Lookup


def lookup(**settings: object) -> Lookup:
    return Lookup(Lookup.Config(**settings), Path())


def always(**settings: object) -> Lookup:
    return lookup(adaptive=False, **settings)


def sampling_rows(num_slots: int) -> SamplingSlots:
    return SamplingSlots(num_slots, VOCAB_SIZE)


def drafted(node: Lookup, *texts: list[int], room: int = 5) -> list[list[int]]:
    """What is drafted to follow each text, all in one step."""
    speculation = rows_of(list(texts))
    return draft_tokens(
        node.run(step_of(speculation, sampling_rows(len(texts)), list(range(len(texts))), room))
    )


def draft_tokens(context: StepContext) -> list[list[int]]:
    step = context.step
    starts = step.starts.tolist()
    return [step.token_ids[begin + 1 : end].tolist() for begin, end in itertools.pairwise(starts)]


def test_what_followed_the_last_tokens_is_guessed():
    assert drafted(always(), [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]) == [[4, 5, 6, 7, 1]]


def test_a_longer_run_wins_over_a_later_one():
    text = [7, 8, 9, 50, 51, 52, 53, 54, 9, 60, 61, 7, 8, 9]
    assert drafted(always(num_draft_tokens=2), text) == [[50, 51]]
    assert drafted(always(num_draft_tokens=2, max_ngram=1), text) == [[60, 61]]


def test_of_equal_runs_the_latest_counts():
    assert drafted(always(num_draft_tokens=1), [1, 2, 9, 1, 2, 8, 1, 2]) == [[8]]


def test_what_repeats_at_once_goes_on():
    assert drafted(always(), [4, 1, 2, 1, 2]) == [[1, 2, 1, 2, 1]]


def test_a_new_token_is_followed_by_no_guess():
    assert drafted(always(), [1, 2, 3, 1, 2, 4], [5, 6, 5]) == [[], [6, 5, 6, 5, 6]]


def test_room_and_setting_bound_the_guesses():
    text = [*range(20), *range(10)]
    assert [len(one) for one in drafted(always(), text, room=3)] == [3]
    assert [len(one) for one in drafted(always(num_draft_tokens=2), text, room=9)] == [2]
    assert drafted(always(), text, room=0) == [[]]


def test_a_request_may_look_up_shorter_runs():
    speculation = rows_of([[7, 8, 9, 50, 51, 52, 9, 60, 61, 7, 8, 9]] * 2)
    speculation.max_ngram[1] = 1
    step = always(num_draft_tokens=2).run(step_of(speculation, sampling_rows(2), [0, 1], 5))
    assert draft_tokens(step) == [[50, 51], [60, 61]]


def test_a_step_without_room_is_left_alone():
    speculation = rows_of([[1, 2, 1]])
    step = step_of(speculation, sampling_rows(1), [0], 0)
    assert always().run(step) is step


def test_prompts_in_the_same_step_get_no_guess():
    speculation = rows_of([[1, 2, 1], [3, 4, 5, 3]])
    step = always(num_draft_tokens=2).run(step_of(speculation, sampling_rows(2), [0], 5, extra=4))
    assert draft_tokens(step) == [[2, 1], [4, 5, 3]]
    assert step.step.draft is not None
    assert step.step.draft.token_ids.tolist() == [2, 1, NO_DRAFT_TOKEN]


def test_a_row_that_changes_hands_begins_anew():
    node, sampling = always(num_draft_tokens=2), sampling_rows(1)
    speculation = rows_of([[1, 2, 3, 1]])
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 5))) == [[2, 3]]
    speculation.token_ids[0], speculation.owner[0] = array("q", [9, 8, 7, 6, 1]), 77
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 5))) == [[]]


@pytest.mark.parametrize("seed", after(8, range(20)))
def test_a_text_that_grows_is_guessed_as_if_it_were_new(seed):
    """But for a passage that is followed: that goes on where it came from."""
    draw = Random(seed)
    text = [draw.randrange(6) for _ in range(draw.randint(1, 40))]
    speculation = rows_of([text])
    node, sampling, lost = always(), sampling_rows(1), 0
    for _ in range(30):
        [ids] = draft_tokens(node.run(step_of(speculation, sampling, [0], 5)))
        tracker = node._trackers[0]
        own = speculation.token_ids[0].tolist()
        if tracker.back:
            matched = tracker.matched
            assert (
                own[len(own) - matched :] == own[len(own) - tracker.back - matched : len(own) - tracker.back]
            )
            assert ids == [(own + ids)[len(own) + k - tracker.back] for k in range(5)]
        else:
            lost += own[-1] in own[:-1]
        speculation.token_ids[0].extend(draw.randrange(6) for _ in range(draw.choice([1, 1, 2, 30])))
    assert lost <= 2, "another run may take the slot of one, rarely"


def test_nothing_is_guessed_before_the_plain_step_is_known():
    assert drafted(lookup(), [1, 2, 3, 1, 2, 3]) == [[]]


@pytest.mark.parametrize("seed", after(1, range(3)))
def test_a_text_that_is_copied_comes_much_sooner(seed):
    draw = Random(seed)
    played = play(lookup().run, [copied_text(draw, 400)], draw)
    assert played.speedup > 1.8


@pytest.mark.parametrize("seed", after(1, range(3)))
def test_a_text_without_repetition_is_hardly_slowed(seed):
    draw = Random(seed)
    played = play(lookup().run, [random_text(draw, 600)], draw)
    assert played.speedup > 0.98


@pytest.mark.parametrize("seed", after(1, range(2)))
def test_many_texts_without_repetition_are_hardly_slowed(seed):
    draw = Random(seed)
    played = play(lookup().run, [random_text(draw, 300) for _ in range(64)], draw)
    assert played.speedup > 0.98


def test_guesses_that_come_true_do_not_pay_where_a_token_costs_what_it_gives():
    draw = Random(1)
    texts = [copied_text(draw, 200) for _ in range(64)]
    played = play(lookup().run, texts, draw)
    assert played.speedup > 0.96
    assert play(always().run, texts, Random(1)).speedup < played.speedup


def test_a_text_that_is_copied_makes_no_other_one_slower():
    node, draw = lookup(), Random(3)
    play(node.run, [copied_text(draw, 300)], draw)
    assert play(node.run, [random_text(draw, 600)], draw).speedup > 0.98


def test_an_expected_text_is_drafted_from_the_first_token_on_and_again_after_another_one():
    prompt, expected = [9, 8, 7], [11, 12, 13, 14, 15, 16, 17, 18, 19]
    speculation = rows_of([prompt])
    speculation.expected[0], speculation.num_prompt[0] = expected, len(prompt)
    node, found = always(num_draft_tokens=3), []
    for token in (11, 12, 99, 14, 15):
        speculation.token_ids[0].append(token)
        found += draft_tokens(node.run(step_of(speculation, sampling_rows(1), [0], 5)))
    assert found == [[12, 13, 14], [13, 14, 15], [], [15, 16, 17], [16, 17, 18]]


def test_a_text_that_begins_otherwise_is_looked_up_in_what_is_expected():
    speculation = rows_of([[9, 8, 7, 50, 12]])
    speculation.expected[0], speculation.num_prompt[0] = [11, 12, 13, 14], 3
    assert draft_tokens(always(num_draft_tokens=2).run(step_of(speculation, sampling_rows(1), [0], 5))) == [
        [13, 14]
    ]
