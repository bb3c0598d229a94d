"""A step that raises gives its blocks back, fails its own sequences, and the next step runs."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
from engine_invariants import snapshot, violations
from engine_rig import Rig, alone

from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine import commit
from pipelines.wire.sampling_params import SamplingParams

PROMPT = list(range(10, 23))
POISON = 96
MESSAGE = "the step that computed this request failed: RuntimeError"


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="pipelines.inference.engine.generation_engine")


def test_a_failed_step_ends_its_sequences_with_a_message_and_frees_all():
    rig = Rig(poison=POISON)
    rig.submit("a", [*PROMPT, POISON], n=2, max_tokens=5)
    outputs = rig.step()
    assert [(o.key, o.choice, o.piece.finish, o.error) for o in outputs] == [
        ("a", 0, "error", MESSAGE),
        ("a", 1, "error", MESSAGE),
    ]
    assert [output.piece.token_ids for output in outputs] == [[], []]
    assert rig.engine.counts().blocks_used == 0
    assert not rig.engine.has_work


def test_the_next_step_runs():
    rig = Rig(poison=POISON)
    rig.submit("bad", [*PROMPT, POISON], max_tokens=5)
    rig.step()
    rig.submit("good", PROMPT, max_tokens=5)
    rig.run()
    assert rig.texts["good", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_exactly_the_sequences_of_the_step_fail():
    rig = Rig(max_sequences=1, poison=POISON)
    rig.submit("bad", [*PROMPT, POISON], max_tokens=5)
    rig.submit("waits", PROMPT, max_tokens=5)
    assert [output.key for output in rig.step()] == ["bad"]
    rig.run()
    assert rig.texts["waits", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_choices_fail_together_after_the_fork_and_their_copies_are_undone():
    rig = Rig()
    rig.submit("a", PROMPT, n=3, max_tokens=5)
    rig.step()

    def lose(context):
        assert len(context.step.copies) == 2
        raise RuntimeError("device lost")

    rig.before = lose
    assert len(rig.step()) == 3
    assert rig.engine.counts().blocks_used == 0


def test_what_earlier_steps_computed_is_still_found_after_a_failed_step():
    rig = Rig(block_tokens=4)
    rig.submit("a", PROMPT, max_tokens=5)
    rig.step()
    rig.session.poison = int(rig.texts["a", 0].token_ids[0])
    assert rig.step()[0].piece.finish == "error"
    rig.session.poison = None
    rig.submit("b", PROMPT, max_tokens=5)
    rig.run()
    assert rig.texts["b", 0].num_cached == 12
    assert rig.texts["b", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_an_interrupt_passes_through_and_leaves_the_step_undone():
    rig = Rig()
    rig.submit("a", PROMPT, n=2, max_tokens=5)
    rig.step()
    before = snapshot(rig.engine)

    def interrupt(step):
        raise KeyboardInterrupt

    rig.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        rig.engine.step()
    after = snapshot(rig.engine)
    assert violations(after) == []
    assert after.running == before.running
    assert after.references == before.references
    rig.before = lambda step: None
    rig.run()
    assert rig.texts["a", 1].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_a_body_that_gives_too_few_tokens_is_a_failed_step():
    rig = Rig()
    rig.submit("a", PROMPT, n=2, max_tokens=5)
    rig.engine._body = lambda step: Sampled(rig._body(step).token_ids[:1], [])
    assert {output.piece.finish for output in rig.step()} == {"error"}
    assert rig.engine.counts().failed_steps == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_tokens": np.array([2, 1])},  # more than there are
        {"num_tokens": np.array([0, 2])},
        {"num_drafted": np.array([0, 1, 0])},
        {"num_drafted": None},
        {"logprobs": [None]},
    ],
    ids=["too_many", "an_empty_run", "too_long", "missing", "too_few_logprobs"],
)
def test_a_body_whose_result_has_a_wrong_shape_fails_its_own_step_alone(wrong):
    rig = Rig(max_sequences=2, num_draft_tokens=3)
    rig.submit("a", PROMPT, n=2, max_tokens=5)
    rig.submit("waits", PROMPT, max_tokens=5)
    body, sound = rig.engine._body, {"num_tokens": np.array([1, 1]), "num_drafted": np.array([1, 0])}
    rig.engine._body = lambda context: replace(body(context), **{**sound, **wrong})
    assert {(output.key, output.piece.finish) for output in rig.step()} == {("a", "error")}
    assert rig.engine.counts().failed_steps == 1
    rig.engine._body = body
    rig.run()
    assert rig.texts["waits", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_a_fault_in_the_commit_of_a_step_fails_its_own_sequences_alone(monkeypatch):
    rig = Rig(max_sequences=2)
    rig.submit("a", PROMPT, n=2, max_tokens=5)
    rig.submit("waits", PROMPT, max_tokens=5)

    def broken(sampled: Sampled) -> None:
        raise IndexError("no such token")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "runs_of", broken)
        assert {(output.key, output.piece.finish) for output in rig.step()} == {("a", "error")}
    rig.run()
    assert rig.texts["waits", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_a_fault_in_one_sequences_commit_ends_that_one_alone(monkeypatch):
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=5)
    rig.submit("b", PROMPT[::-1], max_tokens=5)
    rig.step()
    bad_slot = rig.engine.scheduler.running[0].slot
    append = rig.engine.scheduler.tables.sampling.append

    def fail(slot, token_id):
        if slot == bad_slot:
            raise RuntimeError("no room")
        append(slot, token_id)

    monkeypatch.setattr(rig.engine.scheduler.tables.sampling, "append", fail)
    rig.step()
    monkeypatch.undo()
    rig.run()
    assert rig.texts["a", 0].finish == "error"
    assert rig.texts["b", 0].token_ids == alone(PROMPT[::-1], greedy(5)).token_ids


def test_a_fault_while_blocks_are_remembered_ends_that_sequence_alone(monkeypatch):
    rig = Rig(max_step_tokens=40)
    rig.submit("a", PROMPT, n=2, max_tokens=5)
    rig.submit("b", PROMPT[::-1], max_tokens=5)
    register = rig.engine.cache.register

    def fail(sequence):
        if sequence.key == "a":
            raise RuntimeError("no room")
        register(sequence)

    monkeypatch.setattr(rig.engine.cache, "register", fail)
    rig.run()
    assert [rig.texts["a", choice].finish for choice in (0, 1)] == ["error", "error"]
    assert rig.texts["b", 0].token_ids == alone(PROMPT[::-1], greedy(5)).token_ids


def test_parameters_that_the_sampler_cannot_take_end_their_request_alone(monkeypatch):
    rig = Rig()
    rig.submit("a", PROMPT, n=2, max_tokens=5, seed=666)
    rig.submit("b", PROMPT, max_tokens=5)
    take = rig.engine.scheduler.tables.sampling.set

    def fail(slot, params, prompt_ids, output_ids, choice, *rest):
        if params.seed == 666 and choice == 1:
            raise RuntimeError("bad parameters")
        take(slot, params, prompt_ids, output_ids, choice, *rest)

    monkeypatch.setattr(rig.engine.scheduler.tables.sampling, "set", fail)
    rig.run()
    assert [rig.texts["a", choice].finish for choice in (0, 1)] == ["error", "error"]
    assert rig.texts["b", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_the_log_has_the_traceback_that_the_client_does_not_see(caplog):
    caplog.set_level(logging.ERROR, logger="pipelines.inference.engine.generation_engine")
    rig = Rig(poison=POISON)
    rig.submit("a", [POISON], max_tokens=5)
    (output,) = rig.step()
    assert "poisoned" not in str(output.error)
    assert "the step met the poisoned token 96" in caplog.text
    assert "Traceback" in caplog.text
