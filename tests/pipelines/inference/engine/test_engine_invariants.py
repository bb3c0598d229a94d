"""`violations` finds each promise that a snapshot breaks."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from engine_invariants import SequenceState, Snapshot, snapshot, violations
from engine_rig import Rig

from pipelines.inference.contracts.step import Sampled


def sound() -> Snapshot:
    """Two sequences that share a block, one that waits, a group in the middle of its prompt."""
    rig = Rig(max_sequences=5, max_step_tokens=12, num_blocks=20, block_tokens=4)
    rig.submit("a", list(range(9)), n=2, max_tokens=50)
    rig.step()
    rig.submit("b", list(range(30, 60)), n=2, max_tokens=50)
    rig.step()
    rig.submit("c", [1] * 5, n=2, max_tokens=50)
    rig.step()
    return snapshot(rig.engine)


def swapped_out() -> Snapshot:
    """One that runs, one that the next step is to swap out, one that an earlier step did, with a follower."""
    rig = Rig(max_step_tokens=60, num_host_blocks=20)
    for key in "ab":
        rig.submit(key, [ord(key) % 90] * 18, max_tokens=50)
    rig.submit("c", [7] * 40, n=2, max_tokens=50)
    rig.step()
    rig.preempt()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.inference.engine.scheduling.scheduler.may_admit", lambda *numbers: False)
        rig.step()
    rig.preempt()
    return snapshot(rig.engine)


def swapped_in() -> Snapshot:
    """One that runs, and one whose blocks are still on the host, for the step was interrupted."""
    rig = Rig(max_step_tokens=60, num_host_blocks=20, reuse_prefixes=False)
    for key in "ab":
        rig.submit(key, [ord(key) % 90] * 18, max_tokens=50)
    rig.step()
    rig.preempt()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.inference.engine.scheduling.scheduler.may_admit", lambda *numbers: False)
        rig.step()
    rig.engine._body = interrupt
    with pytest.raises(KeyboardInterrupt):
        rig.engine.step()
    return snapshot(rig.engine)


def interrupt(step: object) -> Sampled:
    raise KeyboardInterrupt


def set_(sequence: SequenceState, name: str, value: object) -> None:
    object.__setattr__(sequence, name, value)


def lose_a_block(state: Snapshot) -> None:
    state.free_blocks.pop()


def free_an_owned_block(state: Snapshot) -> None:
    state.free_blocks.append(state.running[0].blocks[0])


def free_a_block_twice(state: Snapshot) -> None:
    state.free_blocks.append(state.free_blocks[0])


def count_an_owner_too_many(state: Snapshot) -> None:
    state.references[state.running[0].blocks[0]] += 1


def own_a_block_uncounted(state: Snapshot) -> None:
    state.running[1].blocks.append(state.free_blocks[0])


def find_a_block_that_forgot(state: Snapshot) -> None:
    state.block_of[b"stale"] = state.free_blocks[0]


def give_a_slot_twice(state: Snapshot) -> None:
    set_(state.running[1], "slot", state.running[0].slot)


def lose_a_slot(state: Snapshot) -> None:
    state.free_slots.append(state.running[0].slot)


def run_without_a_slot(state: Snapshot) -> None:
    state.free_slots.append(state.running[0].slot)
    set_(state.running[0], "slot", -1)


def forget_to_update_the_table(state: Snapshot) -> None:
    state.running[0].table[0] += 1


def forget_to_update_the_past(state: Snapshot) -> None:
    set_(state.running[0], "num_past", state.running[0].num_past - 1)


def forget_to_update_the_last_token(state: Snapshot) -> None:
    set_(state.running[0], "last_token", state.running[0].last_token + 1)


def forget_to_count_an_output(state: Snapshot) -> None:
    set_(state.running[0], "num_outputs", state.running[0].num_outputs - 1)


def follow_the_guide_of_another(state: Snapshot) -> None:
    set_(state.running[0], "guided_as_it_is", False)


def cache_beyond_the_blocks(state: Snapshot) -> None:
    room = len(state.running[0].blocks) * state.block_tokens
    state.running[0].token_ids.extend([0] * room)
    set_(state.running[0], "num_cached", room + 1)
    set_(state.running[0], "num_past", room + 1)


def cache_every_token(state: Snapshot) -> None:
    set_(state.running[0], "num_cached", len(state.running[0].token_ids))
    set_(state.running[0], "num_past", len(state.running[0].token_ids))


def run_beyond_the_context(state: Snapshot) -> None:
    object.__setattr__(state, "max_context", 10)


def hold_other_tokens_than_the_digest_says(state: Snapshot) -> None:
    state.running[0].token_ids[0] += 1


def give_a_digest_to_a_partial_block(state: Snapshot) -> None:
    block = state.running[0].blocks[-1]
    state.digest_of[block] = b"early"
    state.block_of[b"early"] = block


def overtake(state: Snapshot) -> None:
    state.running.reverse()


def wait_behind_a_younger_one(state: Snapshot) -> None:
    set_(state.waiting[0], "submit_order", 0)


def cache_what_is_not_scored(state: Snapshot) -> None:
    set_(state.running[0], "num_scored", state.running[0].num_cached - 1)


def wait_with_blocks(state: Snapshot) -> None:
    state.waiting[0].blocks.append(0)


def wait_with_cached_tokens(state: Snapshot) -> None:
    set_(state.waiting[0], "num_cached", 1)


def follow_with_blocks(state: Snapshot) -> None:
    state.followers[0].blocks.append(0)


def lose_a_sequence(state: Snapshot) -> None:
    state.waiting.pop()


def lose_a_host_block(state: Snapshot) -> None:
    state.free_host_blocks.pop()


def own_a_host_block_twice(state: Snapshot) -> None:
    state.waiting[1].host_blocks[0] = state.waiting[0].host_blocks[0]


def own_more_on_the_host_than_is_cached(state: Snapshot) -> None:
    set_(state.waiting[0], "num_cached", state.waiting[0].num_cached - 4)


def forget_what_is_to_be_swapped_out(state: Snapshot) -> None:
    state.waiting[0].swapping_out.pop()  # type: ignore[union-attr]


def swap_in_who_waits(state: Snapshot) -> None:
    set_(state.waiting[1], "swapping_in", 0)


def swap_who_is_gone(state: Snapshot) -> None:
    object.__setattr__(state, "num_moving", state.num_moving + 1)


def follow_with_host_blocks(state: Snapshot) -> None:
    state.followers[0].host_blocks.append(state.free_host_blocks.pop())


def swap_out_who_runs(state: Snapshot) -> None:
    set_(state.running[1], "swapping_out", [])


def forget_what_is_to_be_swapped_in(state: Snapshot) -> None:
    set_(state.running[1], "swapping_in", None)


def keep_host_blocks_for_ever(state: Snapshot) -> None:
    state.running[0].host_blocks.append(state.free_host_blocks.pop())


def test_a_sound_engine_breaks_nothing():
    state = sound()
    assert len(state.running) == 3
    assert state.waiting
    assert len(state.followers) == 2
    assert violations(state) == []


def test_an_engine_that_swaps_breaks_nothing():
    state = swapped_out()
    assert [len(sequence.host_blocks) for sequence in state.waiting] == [5, 6]
    assert [sequence.swapping_out is None for sequence in state.waiting] == [False, True]
    assert violations(state) == []
    state = swapped_in()
    assert [sequence.swapping_in for sequence in state.running] == [None, 0]
    assert violations(state) == []


@pytest.mark.parametrize(
    ("wreck", "words"),
    [
        (lose_a_block, "0 references and is not free"),
        (free_an_owned_block, "references and is free"),
        (free_a_block_twice, "free twice"),
        (count_an_owner_too_many, "references but has"),
        (own_a_block_uncounted, "counts 0 references but has 1 owners"),
        (find_a_block_that_forgot, "digests of blocks"),
        (give_a_slot_twice, "slots"),
        (lose_a_slot, "slots"),
        (run_without_a_slot, "without a slot"),
        (forget_to_update_the_table, "its slot says"),
        (forget_to_update_the_past, "another past"),
        (forget_to_update_the_last_token, "another last token"),
        (forget_to_count_an_output, "its slot others"),
        (follow_the_guide_of_another, "its slot others"),
        (cache_beyond_the_blocks, "in blocks for"),
        (cache_every_token, "cached, of"),
        (run_beyond_the_context, "of 10"),
        (hold_other_tokens_than_the_digest_says, "digest of other tokens"),
        (give_a_digest_to_a_partial_block, "is not full"),
        (overtake, "do not stand in turn"),
        (wait_behind_a_younger_one, "waits while a younger one runs"),
        (cache_what_is_not_scored, "but only"),
        (wait_with_blocks, "waits and owns"),
        (wait_with_cached_tokens, "waits with 1 tokens cached in 0 host blocks"),
        (follow_with_blocks, "follows and owns"),
        (lose_a_sequence, "are live"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_broken_promise_is_found(wreck: Callable[[Snapshot], None], words: str):
    state = deepcopy(sound())
    wreck(state)
    assert any(words in line for line in violations(state)), violations(state)


def with_states() -> Snapshot:
    """Two choices that share a state, and a prompt of which a whole number of blocks is computed."""
    rig = Rig(max_sequences=5, max_step_tokens=10, num_blocks=20, block_tokens=4, keeps_states=True)
    rig.submit("a", list(range(8)), n=2, max_tokens=50)
    rig.step()
    rig.submit("b", list(range(30, 60)), max_tokens=50)
    rig.step()
    rig.submit("c", list(range(8)), n=2, max_tokens=50)
    return snapshot(rig.engine)


def count_a_share_too_many(state: Snapshot) -> None:
    state.state_references[one_with_a_state(state)] += 1


def free_a_state_that_is_owned(state: Snapshot) -> None:
    state.free_states.append(one_with_a_state(state))


def compute_without_a_state(state: Snapshot) -> None:
    set_(state.running[0], "state", None)


def keep_a_state_of_none_that_runs(state: Snapshot) -> None:
    object.__setattr__(state, "num_held_states", state.num_held_states + 1)


def know_a_state_by_other_tokens(state: Snapshot) -> None:
    row = one_with_a_state(state)
    state.state_digest_of[row] = b"other"
    state.state_of[b"other"] = row


def find_a_state_that_was_forgotten(state: Snapshot) -> None:
    state.state_of[b"stale"] = 0


def one_with_a_state(state: Snapshot) -> int:
    row = state.running[0].state
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("wreck", "words"),
    [
        (count_a_share_too_many, "references but has 1 owners"),
        (free_a_state_that_is_owned, "their references say others"),
        (compute_without_a_state, "tokens cached and state None"),
        (keep_a_state_of_none_that_runs, "sequences have a state"),
        (know_a_state_by_other_tokens, "is known by the digest of other tokens"),
        (find_a_state_that_was_forgotten, "the digests of states"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_broken_promise_of_states_is_found(wreck: Callable[[Snapshot], None], words: str):
    state = with_states()
    assert violations(state) == []
    wreck(state)
    assert any(words in line for line in violations(state)), violations(state)


@pytest.mark.parametrize(
    ("begin", "wreck", "words"),
    [
        (swapped_out, lose_a_host_block, "host blocks"),
        (swapped_out, own_a_host_block_twice, "host blocks"),
        (swapped_out, own_more_on_the_host_than_is_cached, "tokens cached in 5 host blocks"),
        (swapped_out, forget_what_is_to_be_swapped_out, "leaves 4 blocks for 5"),
        (swapped_out, swap_in_who_waits, "waits and owns"),
        (swapped_out, swap_who_is_gone, "are to be swapped, but 1 are live"),
        (swapped_out, follow_with_host_blocks, "follows and owns"),
        (swapped_in, swap_out_who_runs, "runs and is to be swapped out"),
        (swapped_in, forget_what_is_to_be_swapped_in, "swapped in behind None"),
        (swapped_in, keep_host_blocks_for_ever, "swapped in behind None"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_broken_promise_of_swapping_is_found(
    begin: Callable[[], Snapshot], wreck: Callable[[Snapshot], None], words: str
):
    state = deepcopy(begin())
    wreck(state)
    assert any(words in line for line in violations(state)), violations(state)
