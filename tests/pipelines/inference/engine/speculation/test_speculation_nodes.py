"""Lookup and draft in an engine that does everything at once: no text changes, and no cache goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from breadth import after
from cache_slots import context_slots
from engine_rig import VOCAB_SIZE, Rig, alone
from test_engine_everything import DEMO, EOS, Schedule

from pipelines.inference.backends.fake_decoder import FakeSession
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.draft import Draft
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.nodes.generation.body.lookup import Lookup
from pipelines.wire.sampling_params import SamplingParams

pytestmark = pytest.mark.slow

NOWHERE = Path("nowhere")


class WatchedDraft:
    """A draft that stands before the rig's own session; what it thinks it has computed is looked at."""

    def __init__(self, rig: Rig, dissent: float, num_draft_tokens: int = 4, adaptive: bool = False) -> None:
        session, config = (
            rig.session,
            Draft.Config(
                path="draft.json", device="fake", num_draft_tokens=num_draft_tokens, adaptive=adaptive
            ),
        )
        self.session = FakeSession(
            VOCAB_SIZE, session.shape.block_tokens, session.shape.max_context, dissent=dissent
        )
        self.session.allocate(len(session.cache), len(session.host_cache))
        self.running = rig.engine.scheduler.running
        self.node = Draft(config, NOWHERE)
        self.node.use_session(self.session)
        rig.draft_token = self.draft_token

    def draft_token(self, context: StepContext) -> StepContext:
        step, drafted = context.step, self.node.run(context)
        token_ids = {sequence.slot: sequence.token_ids for sequence in self.running}
        for seq, computed in enumerate(self.node._drafted.computed(step).tolist()):
            slots = context_slots(step.block_table[seq], computed, self.session.shape.block_tokens)
            held = self.session.cache.reshape(-1)[slots]
            assert held.tolist() == token_ids[step.slots[seq]][:computed].tolist()
        return drafted


@pytest.fixture(scope="module")
def grammar():
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), DEMO)
    node.start(2048, EOS)
    yield node
    node.close()


def play(seed: int, grammar: Grammar, put: Callable[[Rig], object], failing: bool = False) -> Schedule:
    schedule = Schedule(seed, grammar, failing, speculation=True)
    put(schedule.rig)
    schedule.run()
    schedule.check()
    return schedule


def put_lookup(rig: Rig, adaptive: bool = False) -> None:
    node = Lookup(Lookup.Config(num_draft_tokens=4, adaptive=adaptive), NOWHERE)
    rig.draft_token = node.run


@pytest.mark.parametrize(
    ("seed", "adaptive"),
    after(2, [(0, False), (1, True), (0, True), (1, False), *product(range(2, 12), (False, True))]),
)
def test_lookup_changes_no_text(grammar, seed, adaptive):
    play(seed, grammar, lambda rig: put_lookup(rig, adaptive), failing=seed % 4 == 0)


@pytest.mark.parametrize("dissent", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", after(1, range(12)))
def test_a_draft_changes_no_text(grammar, seed, dissent):
    play(seed, grammar, lambda rig: WatchedDraft(rig, dissent), failing=seed % 4 == 0)


@pytest.mark.parametrize("seed", after(1, range(12)))
def test_a_draft_that_works_now_and_then_changes_no_text(grammar, seed):
    play(seed, grammar, lambda rig: WatchedDraft(rig, 0.3, adaptive=True), failing=seed % 4 == 0)


def put_both(rig: Rig) -> None:
    """A draft, where the lookup above it found nothing."""
    draft, lookup = WatchedDraft(rig, 0.3), Lookup(Lookup.Config(num_draft_tokens=4, adaptive=False), NOWHERE)
    rig.draft_token = lambda step: draft.draft_token(lookup.run(step))


@pytest.mark.parametrize("seed", after(1, range(12)))
def test_a_draft_below_a_lookup_changes_no_text(grammar, seed):
    play(seed, grammar, put_both, failing=seed % 4 == 0)


@pytest.mark.breadth
def test_the_schedules_accept_and_refuse(grammar):
    schedules = [play(seed, grammar, lambda rig: WatchedDraft(rig, 0.3)) for seed in range(12)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.accepted_tokens for one in counts) > 50
    assert sum(one.draft_tokens - one.accepted_tokens for one in counts) > 50
    assert sum(one.swapped_in_blocks for one in counts) > 10
    assert sum(one.prefix_hit_tokens for one in counts) > 10


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_that_agrees_is_right_every_time(temperature):
    rig = Rig(num_draft_tokens=4)
    WatchedDraft(rig, 0.0)
    prompt = list(range(9))
    rig.submit("a", prompt, max_tokens=25, temperature=temperature, seed=5)
    rig.run()
    params = SamplingParams(max_tokens=25, temperature=temperature, seed=5)
    assert rig.texts["a", 0].token_ids == alone(prompt, params).token_ids
    counts = rig.engine.counts()
    assert counts.draft_tokens == counts.accepted_tokens > 15
    assert counts.steps == 1 + -(-24 // 5)


def test_a_text_that_repeats_is_guessed():
    rig = Rig(num_draft_tokens=4)
    put_lookup(rig)
    rig.submit("a", [1, 2, 3, 4, 5] * 3, max_tokens=30, allowed_token_ids=[7])
    rig.run()
    assert rig.texts["a", 0].token_ids == [7] * 30
    assert rig.engine.counts().accepted_tokens > 20


def test_the_cache_of_a_draft_is_that_of_its_target():
    rig = Rig(num_draft_tokens=3, max_sequences=2)
    watched = WatchedDraft(rig, 0.4, num_draft_tokens=3)
    rig.submit("a", list(range(10)), max_tokens=40)
    while rig.engine.has_work:
        rig.step()
        for sequence in rig.engine.scheduler.running:
            held = sequence.num_cached - 1  # the last draft token that were accepted may be missing
            slots = context_slots(np.array(sequence.blocks, np.int32), held, 4)
            assert watched.session.cache.reshape(-1)[slots].tolist() == sequence.token_ids[:held].tolist()


def test_after_searches_that_find_nothing_steps_are_planned_without_draft_tokens():
    rig = Rig(num_draft_tokens=4, max_sequences=2)
    put_lookup(rig, adaptive=True)
    rig.engine.seed_cost({1: 1e-5, 2: 1e-5, 6: 1e-5})  # against steps as short as this a search takes long
    speculation = rig.engine._speculation
    assert speculation is not None
    rig.submit("a", list(range(9)), max_tokens=200)
    due = []
    for _ in range(150):
        due.append(speculation._num_rests == 0)
        rig.step()
    assert sum(due[:10]) < 10
    assert 0 < sum(due[10:]) < 30
    while not speculation._num_rests:
        rig.step()
    rig.submit("b", [1, 2, 3, 4, 5] * 3, max_tokens=4)
    rig.step()
    assert speculation._num_rests == 0, "a new sequence is looked at immediately"
    rig.run()


def test_a_draft_is_asked_in_every_step_whatever_a_lookup_says():
    rig = Rig(num_draft_tokens=4)
    draft, lookup = WatchedDraft(rig, 0.0), Lookup(Lookup.Config(num_draft_tokens=4), NOWHERE)
    rig.draft_token = lambda step: draft.draft_token(lookup.run(step))
    rig.engine.seed_cost({1: 1e-5, 2: 1e-5, 6: 1e-5})
    rig.submit("a", list(range(9)), max_tokens=25)
    rig.run()
    assert rig.engine.counts().draft_tokens > 15
