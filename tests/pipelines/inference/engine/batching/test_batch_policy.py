"""Which lengths make a batch, and whose turn it is: bounds that hold for any texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.inference.engine.batching.batched_request import texts_of
from pipelines.inference.engine.batching.length_policy import FREE_SHARE, FREE_TOKENS, PADDING_SHARE, choose
from pipelines.inference.engine.batching.waiting_queue import WaitingQueue

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=60)
BUDGETS = st.sampled_from([1, 100, 256, 1000, 8192])


def texts(lengths, key="one", priority=0):
    """A request whose texts have these lengths."""
    inputs = {
        "ids": np.zeros(sum(lengths), np.int32),
        "lengths": np.array(lengths, np.int32),
        "activate": np.ones(1, np.uint8),
        "priority": np.array([priority], np.int64),
    }
    return texts_of(key, inputs, lambda key, answer: None, 0.0)


def waiting_of(*requests, budget=8192):
    waiting = WaitingQueue(budget)
    for request in requests:
        waiting.add(request)
    return waiting


def batches(waiting):
    while waiting.num_texts:
        yield waiting.take()


def lengths_of(parts):
    return [part.length for part in parts for _ in range(len(part))]


def padding_of(lengths):
    return max(lengths) * len(lengths) - sum(lengths)


@given(LENGTHS, BUDGETS)
def test_no_batch_is_over_its_budget_nor_padded_beyond_its_bounds(lengths, budget):
    for parts in batches(waiting_of(texts(lengths), budget=budget)):
        taken = lengths_of(parts)
        padded = max(taken) * len(taken)
        assert padded <= budget or len(taken) == 1
        assert taken == sorted(taken, reverse=True)
        assert padding_of(taken) <= max(padded / PADDING_SHARE, FREE_TOKENS, budget / FREE_SHARE)


@given(st.lists(LENGTHS, min_size=1, max_size=6), BUDGETS, st.data())
def test_every_text_is_in_exactly_one_batch(requests, budget, data):
    requests = [texts(lengths, key) for key, lengths in enumerate(requests)]
    waiting, left, seen = WaitingQueue(budget), list(requests), {id(request): [] for request in requests}
    while left or waiting.num_texts:
        if left and (not waiting.num_texts or data.draw(st.booleans())):
            waiting.add(left.pop())
        for part in waiting.take():
            assert (part.request.lengths[part.items] == part.length).all()
            seen[id(part.request)] += part.items.tolist()
    for request in requests:
        assert sorted(seen[id(request)]) == list(range(len(request.lengths)))
    assert (waiting.num_texts, waiting.num_tokens, waiting._runs, waiting._left) == (0, 0, {}, {})


@given(st.lists(LENGTHS, min_size=2, max_size=5), st.data())
def test_what_is_dropped_is_in_no_later_batch(requests, data):
    requests = [texts(lengths, key) for key, lengths in enumerate(requests)]
    waiting = waiting_of(*requests, budget=256)
    for _ in range(data.draw(st.integers(0, 3))):
        if waiting.num_texts:
            waiting.take()
    gone = data.draw(st.sampled_from(requests))
    waiting.drop(gone)
    waiting.drop(gone)
    assert all(part.request is not gone for parts in batches(waiting) for part in parts)
    assert (waiting.num_texts, waiting.num_tokens) == (0, 0)


@pytest.mark.parametrize("num_requests", [1, 10, 1000])
@pytest.mark.parametrize("budget", [2048, 8192])
def test_mixed_lengths_are_padded_by_less_than_a_tenth(budget, num_requests):
    drawn = np.random.default_rng(num_requests).lognormal(3.4, 0.7, 1000)
    parts = np.array_split(np.clip(drawn.astype(int), 3, 512), num_requests)
    waiting = waiting_of(*(texts(part.tolist(), key) for key, part in enumerate(parts)), budget=budget)
    taken = [lengths_of(parts) for parts in batches(waiting)]
    padding, total = sum(map(padding_of, taken)), sum(map(sum, taken))
    assert padding < 0.1 * total
    assert len(taken) < 2 * total / budget + 30  # and the batches are no crumbs


def test_a_few_texts_make_one_call_where_padding_is_cheap():
    assert len(list(batches(waiting_of(texts([12, 15, 9]))))) == 1
    assert len(list(batches(waiting_of(texts([12, 300, 9]))))) == 2


def test_a_text_longer_than_the_budget_goes_alone():
    taken = [lengths_of(parts) for parts in batches(waiting_of(texts([300, 20, 300, 20]), budget=256))]
    assert sorted(taken) == [[20, 20], [300], [300]]


def test_longer_texts_are_joined_when_they_fill_the_batch_better():
    counts = {10: 3, 11: 50}
    assert choose(10, counts, sorted(counts), 512) == {11: 45, 10: 1}


def test_one_text_does_not_wait_for_a_request_of_a_thousand():
    many, one = texts([40] * 1000, "many"), texts([200], "one")
    waiting = waiting_of(many)
    waiting.take()
    waiting.add(one)
    assert {part.request.key for part in waiting.take()} == {"one"}


def test_two_requests_share_the_batches():
    waiting = waiting_of(texts([40] * 400, "first"), texts([150] * 400, "second"), budget=1200)
    served = {"first": 0, "second": 0}
    for _ in range(20):
        for part in waiting.take():
            served[part.request.key] += part.length * len(part)
    assert abs(served["first"] - served["second"]) <= 2 * 1200


def test_of_one_length_requests_take_turns():
    waiting = waiting_of(*(texts([10] * 100, key) for key in range(5)), budget=200)
    taken = waiting.take()
    assert sorted(len(part) for part in taken) == [4] * 5


def test_a_request_ends_however_many_come_after_it():
    waiting, batches_run = waiting_of(texts([50] * 100, "old"), budget=500), 0
    while any(request.key == "old" for request in waiting._runs):
        waiting.add(texts([200], "new"))
        waiting.add(texts([200], "new"))
        waiting.take()
        batches_run += 1
        assert batches_run < 300


def test_the_smaller_priority_goes_first():
    waiting = waiting_of(texts([10] * 3, "later", 1), texts([200], "sooner", 0), texts([100], "soonest", -1))
    assert [parts[0].request.key for parts in batches(waiting)] == ["soonest", "sooner", "later"]


def test_a_hundred_thousand_texts_take_a_few_batches_each():
    waiting = WaitingQueue(8192)
    for key in range(2000):
        waiting.add(texts([1 + (key * 7 + at * 13) % 400 for at in range(50)], key))
    first = waiting.take()
    assert 8192 * 0.9 < sum(lengths_of(first)) <= 8192
    assert waiting.num_texts == 100_000 - len(lengths_of(first))


@pytest.mark.parametrize("in_flight", [8, 32, 128])
def test_texts_that_come_one_by_one_are_padded_by_less_than_a_tenth(in_flight):
    drawn = np.clip(np.random.default_rng(0).lognormal(3.4, 0.7, 1000).astype(int), 3, 256).tolist()
    waiting, padding, flying = WaitingQueue(2048), 0, 0
    for key, length in enumerate(drawn):
        waiting.add(texts([length], key))
        flying += 1
        while flying == in_flight or (key == len(drawn) - 1 and waiting.num_texts):
            taken = lengths_of(waiting.take())
            flying -= len(taken)
            padding += padding_of(taken)
    assert padding < 0.1 * sum(drawn)
