"""The decoder without a model: what it computes comes from its cache, through the block table."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from engine_rig import Rig, check_step

from pipelines.inference.backends.fake_decoder import FakeSession, fake_logits
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import NO_STATE


def session_after_a_prompt() -> tuple[FakeSession, Rig]:
    rig = Rig()
    rig.submit("a", list(range(10, 23)), n=2, max_tokens=5)
    rig.step()
    return rig.session, rig


def test_it_is_a_decoder_session():
    session: DecoderSession = FakeSession(block_tokens=8)
    session.allocate(3)
    assert session.shape.block_bytes * 3 == session.cache.nbytes  # type: ignore[attr-defined]
    assert session.describe()["device"] == "fake"
    session.close()


def test_blocks_move_out_then_in_then_are_copied():
    session, rig = session_after_a_prompt()
    session.allocate(5, 2)
    session.cache[:] = np.arange(5)[:, None]
    moves = {"swaps_out": [[0, 1]], "swaps_in": [[1, 2], [0, 0]], "copies": [[3, 4]]}
    arrays = {name: np.array(pairs, np.int32) for name, pairs in moves.items()}
    session._move_blocks(dataclasses.replace(rig.steps[0], **arrays))
    assert session.host_cache[:, 0].tolist() == [-1, 0]
    assert session.cache[:, 0].tolist() == [-1, 1, 0, 3, 3]


def test_a_cache_may_take_part_of_the_free_memory():
    assert 0 < FakeSession().reserve(512, 64) <= 8 << 30


def test_logits_come_from_the_cache_and_not_from_the_step():
    session, rig = session_after_a_prompt()
    session.cache[rig.engine.scheduler.running[0].blocks[0], 1] += 1
    before = rig.session.num_steps
    outputs = rig.step()
    sound = fake_logits([np.array([*range(10, 23), rig.texts["a", 0].token_ids[0]])], 97).argmax()
    assert rig.session.num_steps == before + 1
    assert outputs[0].piece.token_ids != [int(sound)]


def test_a_forgotten_copy_changes_the_text():
    _, rig = session_after_a_prompt()
    step_of = rig.engine._body

    def forget(context):
        object.__setattr__(context.step, "copies", context.step.copies[:0])
        return step_of(context)

    rig.engine._body = forget
    token_ids = {tuple(output.piece.token_ids) for output in rig.step()}
    assert len(token_ids) == 2  # greedy choices of one prompt would agree


def test_another_state_changes_the_text():
    rig = Rig(keeps_states=True)
    rig.submit("a", list(range(10, 23)), n=2, max_tokens=5)
    rig.step()
    step_of = rig.engine._body

    def forget(context):
        read = context.step.states.table[:, 0]
        assert read[0] == read[1] != NO_STATE
        read[1] = len(rig.session.states) - 1
        return step_of(context)

    rig.engine._body = forget
    token_ids = {tuple(output.piece.token_ids) for output in rig.step()}
    assert len(token_ids) == 2  # greedy choices of one prompt would agree


@pytest.mark.parametrize("change", [(0, 99), (3, 10), (4, None)])
def test_any_change_of_a_context_changes_its_logits(change):
    context = np.array([10, 11, 12, 13, 14])
    place, token = change
    other = context[:-1] if token is None else np.where(np.arange(5) == place, token, context)
    first, second = fake_logits([context, other], 97)
    assert (first != second).mean() > 0.9


def test_order_matters():
    first, second = fake_logits([np.array([1, 2]), np.array([2, 1])], 97)
    assert (first != second).mean() > 0.9


def test_logits_are_the_same_in_every_process_and_spread():
    logits = fake_logits([np.array([1, 2, 3])], 97)[0]
    assert logits.dtype == np.float32
    assert int(logits.argmax()) == 50
    assert 0 <= logits.min() < 1 < 11 < logits.max() < 12


def test_poison_raises_after_it_has_written():
    session, rig = session_after_a_prompt()
    session.poison = rig.texts["a", 0].token_ids[0]
    before = session.cache.copy()
    assert [output.piece.finish for output in rig.step()] == ["error", "error"]
    assert (session.cache != before).any()


def test_a_step_takes_its_time():
    session = FakeSession(step_s=0.02)
    session.allocate(64)
    _, rig = session_after_a_prompt()
    step = rig.steps[0]
    check_step(step, rig.engine.scheduler.settings, session)
    begin = time.perf_counter()
    session.run(step)
    assert time.perf_counter() - begin >= 0.02
