"""`violations` finds each promise that a snapshot breaks."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from engine_rig import Rig

from pipelines.engine.invariants import SequenceState, Snapshot, snapshot, violations


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


def give_a_row_twice(state: Snapshot) -> None:
    set_(state.running[1], "row", state.running[0].row)


def lose_a_row(state: Snapshot) -> None:
    state.free_rows.append(state.running[0].row)


def run_without_a_row(state: Snapshot) -> None:
    state.free_rows.append(state.running[0].row)
    set_(state.running[0], "row", -1)


def forget_to_update_the_table(state: Snapshot) -> None:
    state.running[0].table[0] += 1


def forget_to_update_the_past(state: Snapshot) -> None:
    set_(state.running[0], "num_past", state.running[0].num_past - 1)


def forget_to_update_the_last_token(state: Snapshot) -> None:
    set_(state.running[0], "last_token", state.running[0].last_token + 1)


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


def wait_with_blocks(state: Snapshot) -> None:
    state.waiting[0].blocks.append(0)


def wait_with_cached_tokens(state: Snapshot) -> None:
    set_(state.waiting[0], "num_cached", 1)


def follow_with_blocks(state: Snapshot) -> None:
    state.followers[0].blocks.append(0)


def lose_a_sequence(state: Snapshot) -> None:
    state.waiting.pop()


def test_a_sound_engine_breaks_nothing():
    state = sound()
    assert len(state.running) == 3
    assert state.waiting
    assert len(state.followers) == 2
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
        (give_a_row_twice, "rows"),
        (lose_a_row, "rows"),
        (run_without_a_row, "without a row"),
        (forget_to_update_the_table, "its row says"),
        (forget_to_update_the_past, "another past"),
        (forget_to_update_the_last_token, "another last token"),
        (cache_beyond_the_blocks, "in blocks for"),
        (cache_every_token, "cached, of"),
        (run_beyond_the_context, "of 10"),
        (hold_other_tokens_than_the_digest_says, "digest of other tokens"),
        (give_a_digest_to_a_partial_block, "is not full"),
        (overtake, "order of arrival"),
        (wait_with_blocks, "waits and owns"),
        (wait_with_cached_tokens, "waits and owns"),
        (follow_with_blocks, "waits and owns"),
        (lose_a_sequence, "are live"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_broken_promise_is_found(wreck: Callable[[Snapshot], None], words: str):
    state = deepcopy(sound())
    wreck(state)
    assert any(words in line for line in violations(state)), violations(state)
