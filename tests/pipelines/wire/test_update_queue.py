from __future__ import annotations

import asyncio
from typing import Any

import pytest
from patience import PATIENCE_S

from pipelines.base.errors import Unavailable
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.token_piece import PieceLogprobs, Speculation, TokenPiece
from pipelines.wire.update_queue import MAX_READ, MAX_UNREAD, UpdateQueue


def update_queue(num_choices: int = 1) -> UpdateQueue:
    box = UpdateQueue()
    box.open.update(range(num_choices))
    return box


def update(token_ids: list[int], choice: int = 0, **fields: Any) -> TokenUpdate:
    return TokenUpdate(1, choice, TokenPiece(token_ids, len(token_ids), **fields))


def got(box: UpdateQueue) -> list[TokenUpdate]:
    return asyncio.run(asyncio.wait_for(box.get(), PATIENCE_S))


def test_updates_of_one_choice_that_pile_up_are_joined():
    box, chosen = update_queue(), TokenLogprobs(-1.0, 1, [], [])
    box.put(update([5], logprobs=PieceLogprobs([chosen]), num_cached=8))
    box.put(update([6], logprobs=PieceLogprobs([chosen])))
    box.put(update([7], finish="stop", stop_reason=9, logprobs=PieceLogprobs([chosen])))
    assert got(box) == [
        update([5, 6, 7], finish="stop", stop_reason=9, num_cached=8, logprobs=PieceLogprobs([chosen] * 3))
    ]


def test_choices_are_not_mixed():
    box = update_queue(2)
    box.put(update([5], choice=0))
    box.put(update([50], choice=1))
    box.put(update([6], choice=0))
    assert [(one.choice, one.piece.token_ids) for one in got(box)] == [(0, [5, 6]), (1, [50])]


def test_what_was_read_is_not_given_again():
    box = update_queue()
    box.put(update([5], choice=0))
    got(box)
    box.put(update([6], choice=0))
    assert got(box)[0].piece.token_ids == [6]


def test_joining_leaves_an_update_that_was_read_alone():
    box = update_queue()
    box.put(update([5], choice=0))
    read = got(box)[0]
    box.put(update([6], choice=0))
    assert read.piece.token_ids == [5]


def test_get_waits_for_the_first_update():
    async def scene():
        box = update_queue()
        reader = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        assert not reader.done()
        box.put(update([5], choice=0))
        return await reader

    assert asyncio.run(scene())[0].piece.token_ids == [5]


@pytest.mark.parametrize(("whole", "num_reads"), [(False, 6), (True, 2)])
def test_who_wants_a_whole_reply_is_woken_by_the_first_update_and_by_the_end(whole, num_reads):
    async def scene():
        box, read = UpdateQueue(whole), []
        box.open.add(0)

        async def reading():
            while some := await box.get():
                read.append(some[0].piece.token_ids)

        reader = asyncio.create_task(reading())
        for number in range(6):
            await asyncio.sleep(0)
            box.put(
                update([number], prefill_s=None if number else 0.1, finish="stop" if number == 5 else None)
            )
            await asyncio.sleep(0)
        await reader
        return read

    read = asyncio.run(scene())
    assert [token_id for ids in read for token_id in ids] == [0, 1, 2, 3, 4, 5]
    assert len(read) == num_reads


def test_a_failure_wakes_who_wants_a_whole_reply():
    async def scene():
        box = UpdateQueue(whole=True)
        box.open.add(0)
        reader = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        box.fail(Unavailable("gone"))
        await reader

    with pytest.raises(Unavailable):
        asyncio.run(scene())


def test_cancelled_get_loses_nothing():
    async def scene():
        box = update_queue()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.get(), 0.01)
        box.put(update([5], choice=0))
        return await box.get()

    assert asyncio.run(scene())[0].piece.token_ids == [5]


def test_get_is_empty_once_every_choice_has_ended():
    box = update_queue()
    box.put(update([5], finish="length"))
    assert got(box) != []
    assert got(box) == []


def test_failure_is_raised_after_what_came_before_it():
    box = update_queue()
    box.put(update([5], choice=0))
    box.fail(Unavailable("gone"))
    assert got(box)[0].piece.token_ids == [5]
    with pytest.raises(Unavailable, match="gone"):
        got(box)


def test_failure_wakes_a_waiting_reader():
    async def scene():
        box = update_queue()
        reader = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        box.fail(Unavailable("gone"))
        await reader

    with pytest.raises(Unavailable):
        asyncio.run(scene())


def test_failure_after_the_end_has_no_effect():
    box = update_queue()
    box.put(update([5], finish="stop"))
    box.fail(Unavailable("late"))
    got(box)
    assert got(box) == []


def test_update_of_a_dropped_choice_is_dropped():
    box = update_queue(2)
    box.drop(0)
    box.put(update([5], choice=0))
    box.put(update([6], choice=1))
    assert [update.choice for update in got(box)] == [1]


def test_end_wakes_a_waiting_reader_with_nothing():
    async def scene():
        box = update_queue()
        reader = asyncio.create_task(box.get())
        await asyncio.sleep(0)
        box.end()
        return await reader

    assert asyncio.run(scene()) == []


def test_scores_of_a_prompt_survive_what_is_joined_to_them():
    box = update_queue()
    scores = [TokenLogprobs(-1.5, 2, [3], [-0.5])]
    box.put(update([5], logprobs=PieceLogprobs(prompt=scores)))
    box.put(update([6], choice=0))
    (joined,) = got(box)
    assert (joined.piece.token_ids, joined.piece.logprobs.prompt) == ([5, 6], scores)


def test_guesses_that_are_joined_stay_with_their_tokens():
    box = update_queue()
    said = [TokenLogprobs(-float(i), 1, [], []) for i in range(3)]
    box.put(update([5], prefill_s=0.5))
    box.put(
        update([6, 7, 8], speculation=Speculation(2, 2), logprobs=PieceLogprobs(drafted=[said[0], said[1]]))
    )
    box.put(update([9], speculation=Speculation(4, 2)))
    box.put(update([10, 11], speculation=Speculation(6, 3), logprobs=PieceLogprobs(drafted=[said[2]])))
    (joined,) = got(box)
    assert joined.piece.token_ids == [5, 6, 7, 8, 9, 10, 11]
    assert joined.piece.speculation == Speculation(6, 3)
    assert joined.piece.logprobs.drafted == [None, said[0], said[1], None, None, said[2]]
    assert joined.piece.prefill_s == 0.5


@pytest.mark.parametrize("num_top", [0, 20])
@pytest.mark.parametrize("num_choices", [1, 16])
def test_a_reader_that_takes_too_little_is_known(num_top, num_choices):
    """Tokens and their alternatives count, whatever choice they are of; what was read counts no more."""
    box = update_queue(num_choices)
    scores = TokenLogprobs(-1.0, 1, [*range(num_top)], [0.0] * num_top)
    enough = MAX_UNREAD // (1 + num_top)

    def put(number):
        for i in range(number):
            box.put(update([5], i % num_choices, logprobs=PieceLogprobs([scores])))

    put(enough)
    assert not box.is_overfull
    num_read = 0
    while num_read < enough:
        num_read += sum(len(update.piece.token_ids) for update in got(box))
    put(enough)
    assert not box.is_overfull
    put(1 + num_top)
    assert box.is_overfull


def test_a_reply_that_is_read_as_a_whole_may_wait_as_a_whole():
    box = UpdateQueue(whole=True)
    box.open.add(0)
    box.put(update([5] * (MAX_UNREAD + 1)))
    assert not box.is_overfull


def scored(token_id: int, num_alternatives: int) -> TokenLogprobs:
    return TokenLogprobs(-1.0, 1, [token_id] * num_alternatives, [-1.0] * num_alternatives)


@pytest.mark.parametrize("num_alternatives", [0, 20, 2 * MAX_READ])
def test_a_reader_gets_a_bounded_part_of_what_is_unread_and_others_their_turn(num_alternatives):
    num_tokens = 3 if num_alternatives > MAX_READ else 500

    async def scene():
        box, turns, parts = update_queue(3), [0], []

        async def others():
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        for choice in range(3):
            ids = list(range(num_tokens))
            piece = TokenPiece(
                ids,
                num_tokens,
                "stop",
                prefill_s=0.5,
                num_cached=7,
                logprobs=PieceLogprobs(
                    [scored(token_id, num_alternatives) for token_id in ids],
                    [scored(9, 0)],
                    [None, *(scored(token_id, 0) for token_id in ids[1:])],
                ),
            )
            box.put(TokenUpdate(1, choice, piece))
        other = asyncio.create_task(others())
        while updates := await box.get():
            parts.append((turns[0], updates))
        other.cancel()
        return parts

    parts = asyncio.run(scene())
    assert len({turn for turn, _ in parts}) == len(parts), "each in a turn of its own"
    for _, updates in parts:
        num_read = sum(len(update.piece.token_ids) * (1 + num_alternatives) for update in updates)
        assert num_read <= max(MAX_READ, 1 + num_alternatives)
        assert len({update.choice for update in updates}) == len(updates)
    for choice in range(3):
        first, *rest = [update.piece for _, updates in parts for update in updates if update.choice == choice]
        assert [piece.finish for piece in [first, *rest]] == [None] * len(rest) + ["stop"]
        assert all(piece.prefill_s is None and piece.num_cached == 0 for piece in rest)
        for piece in rest:
            first.extend(piece)
        assert first.token_ids == list(range(num_tokens))
        assert (first.num_tokens, first.prefill_s, first.num_cached) == (num_tokens, 0.5, 7)
        assert first.logprobs.prompt == [scored(9, 0)]
        assert [token.top_ids[:1] for token in first.logprobs.tokens] == [
            [token_id][:num_alternatives] for token_id in range(num_tokens)
        ]
        assert first.logprobs.drafted == [None, *(scored(token_id, 0) for token_id in range(1, num_tokens))]
