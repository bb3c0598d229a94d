"""Which engine takes a request: by its key, by what is in flight, and by the bound on imbalance."""

from __future__ import annotations

from collections import Counter

import pytest

from pipelines.worker.engines.choice import choose

KEYS = [f"session {number}" for number in range(1000)]
IDLE = {0: 0, 1: 0, 2: 0}


def claimant(key, engines=IDLE):
    return choose(key, dict.fromkeys(engines, 0), 8)


@pytest.mark.parametrize(
    ("in_flight", "expected"),
    [({0: 3, 1: 2, 2: 4}, [1]), ({0: 1, 1: 1, 2: 4}, [0, 1]), ({1: 9}, [1]), ({0: 0, 1: 0, 2: 0}, [0, 1, 2])],
)
def test_without_a_key_the_least_busy_ones_take_turns(in_flight, expected):
    assert [choose(None, in_flight, 8, turn) for turn in range(len(expected))] == expected


def test_a_key_keeps_to_one_engine_and_keys_spread_evenly():
    chosen = [claimant(key) for key in KEYS]
    assert chosen == [choose(key, IDLE, 8, turn) for turn, key in enumerate(KEYS)]
    assert all(280 < number < 390 for number in Counter(chosen).values())


def test_when_an_engine_leaves_only_its_own_keys_move():
    moved = [key for key in KEYS if claimant(key, [0, 2]) != claimant(key)]
    assert {claimant(key) for key in moved} == {1}
    assert len(moved) == Counter(map(claimant, KEYS))[1]


@pytest.mark.parametrize("max_ahead", [0, 1, 8])
def test_a_busy_engine_loses_its_claim_beyond_the_bound(max_ahead):
    key = next(key for key in KEYS if claimant(key) == 1)
    assert choose(key, {0: 5, 1: 5 + max_ahead, 2: 5}, max_ahead) == 1
    elsewhere = choose(key, {0: 5, 1: 6 + max_ahead, 2: 5}, max_ahead)
    assert elsewhere == claimant(key, [0, 2])


def test_beyond_the_bound_of_all_others_the_least_busy_one_takes_it():
    for key in KEYS[:20]:
        assert choose(key, {0: 9, 1: 9, 2: 0}, 8) == 2


def test_no_engine_gets_further_ahead_than_the_bound():
    """Requests of one session that never end."""
    in_flight = dict(IDLE)
    for _ in range(60):
        in_flight[choose("one session", in_flight, 4)] += 1
        assert max(in_flight.values()) - min(in_flight.values()) <= 5
