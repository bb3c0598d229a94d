"""What engines show of their requests; the map of a cache against the blocks of each sequence."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from batch_rig import Rig as BatchRig
from engine_rig import Rig
from patience import PATIENCE_S

from pipelines.inference.engine.interface.engine_contract import GenerationRequest, Identity
from pipelines.inference.engine.kv_cache import block_map as maps
from pipelines.wire.engine_view import FREE, MAX_SEQUENCES, REUSABLE, SHARED
from pipelines.wire.sampling_params import Beams, SamplingParams


def identify(key):
    return Identity(f"name of {key}", 1.5, "sql")


def shown(rig):
    return rig.engine.view(identify).sequences


def states(rig):
    return [(one.name.removeprefix("name of "), one.choice, one.state) for one in shown(rig)]


def by_brute_force(engine):
    """The owner of each block, looked up one by one."""
    scheduler, pool = engine.scheduler, engine.cache.pool
    sequences = [member for leader in scheduler.running for member in (leader, *leader.followers)]
    for block in range(pool.num_blocks):
        owners = [
            place
            for place, sequence in enumerate(sequences)
            if block in sequence.blocks + sequence.encoder_blocks
        ]
        if len(owners) > 1:
            yield SHARED
        elif owners:
            yield owners[0]
        else:
            yield REUSABLE if block in pool.digest_of else FREE


def spread(runs):
    return [owner for length, owner in runs for _ in range(length)]


def check_map(engine):
    runs = engine.view(identify).block_map
    assert spread(runs) == list(by_brute_force(engine))
    assert all(one[1] != other[1] for one, other in pairwise(runs))
    counts = engine.counts()
    owners = spread(runs)
    assert owners.count(REUSABLE) == counts.blocks_reusable
    assert owners.count(FREE) == counts.blocks_total - counts.blocks_used - counts.blocks_reusable


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(number, marks=pytest.mark.breadth) for number in range(1, 5))]
)
def test_the_map_is_right_after_each_step(seed):
    chance = random.Random(seed)
    rig = Rig(num_blocks=24, num_host_blocks=12, eos_token_ids=frozenset({3, 4}))
    shared = [chance.randrange(97) for _ in range(24)]
    for number in range(40):
        if chance.random() < 0.4:
            prompt = shared[: chance.randrange(1, 24)] + [number] * chance.randrange(1, 9)
            rig.submit(number, prompt, n=chance.randrange(1, 4), max_tokens=chance.randrange(1, 30))
        if chance.random() < 0.1:
            rig.cancel(chance.randrange(number + 1))
        rig.step()
        check_map(rig.engine)
    rig.run()
    rig.engine.reset_prefix_cache()
    check_map(rig.engine)
    assert rig.engine.view(identify).block_map == [(24, FREE)]


def test_blocks_of_beams_are_shared():
    rig = Rig()
    rig.engine.submit(*beam_request())
    for _ in range(4):
        rig.engine.step()
        check_map(rig.engine)
    owners = spread(rig.engine.view(identify).block_map)
    assert owners.count(SHARED) >= 2
    assert {one.choice for one in shown(rig)} == {0, 1, 2}


def beam_request():
    params = SamplingParams(temperature=0.0, max_tokens=20, beams=Beams(3))
    return "b", GenerationRequest([[5] * 11], params, 1)


def test_more_runs_than_the_bound_are_sampled(monkeypatch):
    rig = Rig(num_blocks=120, max_sequences=2, max_context=300)
    for key in (1, 2):
        rig.submit(key, [key] * 4, max_tokens=290)
    for _ in range(220):  # the two grow by turns: no block is beside one of the same owner
        rig.step()
    exact = rig.engine.view(identify).block_map
    assert len(exact) > 100
    monkeypatch.setattr(maps, "MAX_BLOCK_RUNS", 40)
    runs = rig.engine.view(identify).block_map
    assert len(runs) <= 40
    assert spread(runs) == [owner for owner in spread(exact)[::3] for _ in range(3)]


def test_a_sequence_is_shown_from_its_queue_to_its_end():
    rig = Rig(max_sequences=2, max_step_tokens=8)
    rig.submit("a", [1] * 20, max_tokens=5)
    rig.submit("b", [2] * 4, n=2, max_tokens=7)
    assert states(rig) == [("a", 0, "waiting"), ("b", 0, "waiting"), ("b", 1, "waiting")]
    rig.step()
    first, *waiting = shown(rig)
    assert (first.state, first.prompt_tokens, first.prompt_done, first.blocks) == ("running", 20, 8, 2)
    assert (first.output_tokens, first.max_tokens, first.cached_tokens) == (0, 5, 0)
    assert (first.age_s, first.adapter) == (1.5, "sql")
    assert {entry.state for entry in waiting} == {"waiting"}
    assert {(entry.prompt_done, entry.blocks, entry.max_tokens) for entry in waiting} == {(0, 0, 7)}
    for _ in range(2):
        rig.step()
    first = shown(rig)[0]
    assert (first.prompt_done, first.output_tokens, first.blocks) == (20, 1, 5)
    rig.run()
    assert shown(rig) == []
    rig.submit("c", [1] * 20, max_tokens=5)
    rig.step()
    (again,) = shown(rig)
    assert (again.cached_tokens, again.prompt_done) == (16, 20)


def test_followers_show_the_prompt_that_their_leader_computes():
    rig = Rig(max_step_tokens=8)
    rig.submit("a", [1] * 12, n=3, max_tokens=5)
    rig.step()
    assert [(one.state, one.prompt_done, one.blocks) for one in shown(rig)] == [
        *(("running", 8, 2), ("running", 8, 0), ("running", 8, 0))
    ]
    rig.step()
    assert [(one.prompt_done, one.output_tokens) for one in shown(rig)] == [(12, 1)] * 3


def test_a_swapped_one_is_shown_with_what_is_computed():
    rig = Rig(max_step_tokens=40, num_host_blocks=16)
    rig.submit("a", [1] * 18, max_tokens=20)
    rig.submit("b", [2] * 18, max_tokens=20)
    for _ in range(3):
        rig.step()
    rig.preempt()
    assert states(rig) == [("a", 0, "running"), ("b", 0, "swapped")]
    swapped = shown(rig)[1]
    assert (swapped.prompt_done, swapped.blocks) == (18, 0)
    assert swapped.output_tokens > 0


def test_the_first_ones_are_shown(monkeypatch):
    rig = Rig(max_sequences=4)
    for number in range(MAX_SEQUENCES + 5):
        rig.submit(number, [1, 2], max_tokens=3)
    rig.step()
    found = states(rig)
    assert len(found) == MAX_SEQUENCES
    assert [state for *_, state in found[:5]] == ["running"] * 4 + ["waiting"]
    check_map(rig.engine)


@pytest.mark.parametrize("num_steps", [0, 1, 3, 6])
@pytest.mark.parametrize("extra", [{}, {"n": 2}])
def test_an_aborted_request_gives_one_end_for_each_choice_and_all_blocks_back(num_steps, extra):
    rig = Rig(max_step_tokens=8)
    rig.submit("a", [1] * 12, max_tokens=50, **extra)
    rig.submit("b", [2] * 12, max_tokens=5)
    for _ in range(num_steps):
        rig.step()
    cached = rig.texts["a", 0].num_cached
    ends = rig.engine.abort("a")
    rig.check()
    assert [(end.key, end.choice) for end in ends] == [("a", choice) for choice in range(extra.get("n", 1))]
    assert {(end.piece.finish, end.piece.num_tokens, end.piece.num_cached) for end in ends} == {
        ("abort", 0, cached)
    }
    assert rig.engine.abort("a") == []
    rig.run()
    assert len(rig.texts["b", 0].token_ids) == 5


def test_aborted_beams_end_with_each_of_their_choices():
    rig = Rig()
    rig.engine.submit(*beam_request())
    for _ in range(3):
        rig.engine.step()
    assert [(end.choice, end.piece.finish) for end in rig.engine.abort("b")] == [(0, "abort")]
    assert rig.engine.counts().blocks_used == 0
    assert not rig.engine.has_work


def test_a_swapped_request_can_be_aborted():
    rig = Rig(max_step_tokens=40, num_host_blocks=16)
    rig.submit("a", [1] * 18, max_tokens=20)
    rig.submit("b", [2] * 18, max_tokens=20)
    for _ in range(3):
        rig.step()
    rig.preempt()
    assert [end.piece.finish for end in rig.engine.abort("b")] == ["abort"]
    assert rig.engine.counts().host_blocks_used == 0
    rig.run()


def until_true(condition):
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def test_texts_are_shown_with_their_tokens():
    rig = BatchRig(held=True, max_batch_tokens=4)
    try:
        rig.put("a", [[1, 2, 3], [4, 5]])
        rig.put("b", [[6, 7]])
        rig.body.began.get(timeout=PATIENCE_S)
        view = rig.engine.view(identify)
        assert (view.kind, view.block_map) == ("pooling", None)
        assert [
            (entry.name, entry.state, entry.prompt_tokens, entry.prompt_done) for entry in view.sequences
        ] == [
            ("name of a", "running", 5, 0),
            ("name of b", "waiting", 2, 0),
        ]
        rig.body.turns.release()
        until_true(lambda: shown(rig)[0].prompt_done == 3)
        rig.body.turns.release(5)
        assert {rig.answer()[0] for _ in range(2)} == {"a", "b"}
        until_true(lambda: not shown(rig))
    finally:
        rig.body.turns.release(9)
        rig.close()
