"""The draft node alone: what its cache holds, what it draft tokens, and when it works at all."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from breadth import after
from cache_slots import context_slots
from speculation_streams import BLOCK_TOKENS, play, random_text, rows_of, step_of

from ops.contract import RowSampling
from pipelines.inference.backends.fake_decoder import FakeSession, fake_logits
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.draft import Draft, check_draft
from pipelines.nodes.generation.body.draft_policy import DraftPolicy

VOCAB_SIZE = 97
COLUMNS = 64


def draft(num_slots: int, adaptive: bool = False, num_draft_tokens: int = 4, **fake: object) -> Draft:
    settings = {
        "path": "fake.json",
        "device": "fake",
        "num_draft_tokens": num_draft_tokens,
        "adaptive": adaptive,
    }
    node = Draft(Draft.Config(**settings), Path())
    node.use_session(FakeSession(**{"vocab_size": VOCAB_SIZE, "block_tokens": BLOCK_TOKENS, **fake}))
    node.session.allocate(num_slots * COLUMNS)
    return node


def follows(ids: list[int]) -> int:
    """What a fake model says after `ids`."""
    return int(fake_logits([np.array(ids, np.int64)], VOCAB_SIZE)[0].argmax())


def goes_on(ids: list[int], count: int) -> list[int]:
    said: list[int] = []
    while len(said) < count:
        said.append(follows(ids + said))
    return said


def draft_tokens(context: StepContext) -> list[list[int]]:
    step = context.step
    return [ids.tolist()[1:] for ids in np.split(step.token_ids, step.starts[1:-1])]


def held(node: Draft, slot: int, count: int) -> list[int]:
    slots = context_slots(np.arange(COLUMNS, dtype=np.int32) + slot * COLUMNS, count, BLOCK_TOKENS)
    return node.session.cache.reshape(-1)[slots].tolist()


def prompt_step(node: Draft, speculation: SpeculationSlots, sampling: SamplingSlots) -> None:
    """The last slot's prompt, whole, as a step that samples nothing."""
    node.run(step_of(speculation, sampling, [], 0, extra=len(speculation.token_ids[-1])))


@pytest.fixture
def sampling():
    return SamplingSlots(3, VOCAB_SIZE)


def test_it_guesses_what_its_model_says(sampling):
    node, texts = draft(2), [[5, 6, 7], [8, 9, 10, 11, 12]]
    step = node.run(step_of(rows_of(texts), sampling, [0, 1], 4))
    assert draft_tokens(step) == [[], []]  # never more tokens than a step had: it is not ready yet
    node._largest = 8
    step = node.run(step_of(rows_of(texts), sampling, [0, 1], 4))
    assert draft_tokens(step) == [goes_on(text, 4) for text in texts]


def test_prompts_are_computed_in_the_step_of_their_target(sampling):
    node, speculation = draft(1), rows_of([[5, 6, 7, 8, 9, 10]])
    prompt_step(node, speculation, sampling)
    assert node.session.num_steps == 1
    assert held(node, 0, 6) == [5, 6, 7, 8, 9, 10]
    speculation.token_ids[0].append(11)
    step = node.run(step_of(speculation, sampling, [0], 2))
    assert draft_tokens(step) == [goes_on([5, 6, 7, 8, 9, 10, 11], 2)]
    assert node.session.num_steps == 3


@pytest.mark.parametrize("seed", after(10, range(30)))
def test_its_cache_is_right_after_any_pattern_of_acceptance(sampling, seed):
    draw = Random(seed)
    text = [draw.randrange(VOCAB_SIZE) for _ in range(draw.randint(1, 20))]
    node, speculation = draft(1), rows_of([text])
    node._largest = 64
    prompt_step(node, speculation, sampling)
    own = speculation.token_ids[0]
    own.append(draw.randrange(VOCAB_SIZE))
    for _ in range(20):
        room = draw.randint(0, 6)
        [said] = draft_tokens(node.run(step_of(speculation, sampling, [0], room)))
        assert said == goes_on(own.tolist(), min(4, room))
        if room:
            assert held(node, 0, len(own) + max(0, len(said) - 1)) == own.tolist() + said[:-1]
        accepted = draw.randint(0, len(said))
        own.extend([*said[:accepted], draw.randrange(VOCAB_SIZE)])


def test_what_was_left_out_is_computed_when_it_is_wanted(sampling):
    node, speculation = draft(1), rows_of([[5, 6, 7]])
    node._largest = 64
    own = speculation.token_ids[0]
    for token_id in range(20):
        step = step_of(speculation, sampling, [0], 0)
        assert node.run(step) is step
        own.append(token_id)
    assert node.session.num_steps == 0
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 1))) == [[follows(own.tolist())]]
    assert node.session.num_steps == 1
    assert held(node, 0, 23) == own.tolist()


def test_much_that_was_left_out_is_computed_in_several_steps(sampling):
    node, speculation = draft(1), rows_of([list(range(30))])
    node._largest = 12
    own = speculation.token_ids[0]
    for _ in range(2):
        assert draft_tokens(node.run(step_of(speculation, sampling, [0], 3))) == [[]]
        own.append(3)
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 3))) == [goes_on(own.tolist(), 3)]


def test_a_block_of_another_sequence_is_begun_anew(sampling):
    node, speculation = draft(1), rows_of([[5, 6, 7, 8, 9]])
    prompt_step(node, speculation, sampling)
    speculation = rows_of([[40, 41, 42, 43, 44, 45]])
    step = step_of(speculation, sampling, [], 0, extra=6)
    node._drafted.start_step(step.step)
    assert node._drafted.computed(step.step).tolist() == [0]
    speculation.token_ids[0].append(46)
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 1))) == [[]]  # 7 tokens, 6 at most
    assert draft_tokens(node.run(step_of(speculation, sampling, [0], 1))) == [[follows([*range(40, 47)])]]


def test_blocks_move_with_those_of_the_target(sampling):
    node, speculation = draft(2), rows_of([[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 10]])
    node.run(step_of(rows_of([[5, 6, 7, 8, 9, 10]]), sampling, [], 0, extra=6))
    step = step_of(speculation, sampling, [1], 2)
    step.step.block_table[0, 0] = 0  # the first block is shared, the second was copied
    moved = with_copies(step, [[1, COLUMNS + 1]])
    assert draft_tokens(node.run(moved)) == [goes_on([5, 6, 7, 8, 9, 10], 2)]
    assert node.session.cache[COLUMNS + 1].tolist()[:2] == [9, 10]


def test_blocks_that_moved_without_it_are_computed_again(sampling):
    node = draft(2)
    node.run(step_of(rows_of([[5, 6, 7, 8, 9, 10]]), sampling, [], 0, extra=6))
    speculation = rows_of([[], [5, 6, 7, 8, 9, 10]])
    step = with_copies(step_of(speculation, sampling, [1], 0), [[1, COLUMNS + 1]])
    step.step.block_table[0, 0] = 0
    assert node.run(step) is step
    assert node.session.num_steps == 1
    speculation.token_ids[1].append(11)
    step = step_of(speculation, sampling, [1], 1)
    step.step.block_table[0, 0] = 0
    assert node._drafted.computed(step.step).tolist() == [4]
    assert draft_tokens(node.run(step)) == [[follows([5, 6, 7, 8, 9, 10, 11])]]


def with_copies(context: StepContext, pairs: list[list[int]]) -> StepContext:
    from dataclasses import replace

    return context.with_step(replace(context.step, copies=np.array(pairs, np.int32)))


def test_a_step_that_has_guesses_already_is_left_alone(sampling):
    node = draft(1)
    plain = step_of(rows_of([[1, 2]]), sampling, [0], 3)
    step = plain.with_step(with_draft_tokens(plain.step, np.array([1]), np.array([7])))
    assert node.run(step) is step
    assert node.session.num_steps == 0


def test_rows_that_draw_are_guessed_with_their_own_random_numbers(sampling):
    node, text = draft(1), [5, 6, 7]
    node._largest = 8
    sampling.draws.temperature[0], sampling.draws.keys[0], sampling.num_outputs[0] = 1.0, 1234, 2
    [said] = draft_tokens(node.run(step_of(rows_of([text]), sampling, [0], 4)))
    values = [fake_logits([np.array(text + said[:k], np.int64)], VOCAB_SIZE) for k in range(4)]
    chances = [np.array([number]) for number in (1.0, 0.0)]
    drawn = [
        node.session.ops.choose(
            logits,
            RowSampling(
                chances[0].astype(np.float32),
                chances[1].astype(np.float32),
                np.array([2**31 - 1]),
                np.ones(1, np.float32),
                np.array([1234], np.uint64),
                np.array([2 + k], np.uint64),
            ),
        )[0]
        for k, logits in enumerate(values)
    ]
    assert said == drawn
    assert said != goes_on(text, 4)


def test_a_row_stops_where_the_draft_itself_is_unsure(sampling):
    text = [5, 6, 7]
    node, speculation = draft(2), rows_of([text, text])
    node._largest = 8
    sure = []
    for k in range(4):
        logits = fake_logits([np.array(text + goes_on(text, k), np.int64)], VOCAB_SIZE)
        sure.append(float(np.exp(logits.max() - logits.max()) / np.exp(logits - logits.max()).sum()))
    speculation.threshold[1] = threshold = sorted(sure)[2]
    held_back = next(k for k in range(5) if k == 4 or sure[k] < threshold * 0.999)
    step = node.run(step_of(speculation, sampling, [0, 1], 4))
    assert [len(draft_token) for draft_token in draft_tokens(step)] == [4, held_back]


def test_it_tells_how_likely_it_thought_its_guesses(sampling):
    node, speculation = draft(2), rows_of([[5, 6, 7], [8, 9]])
    node._largest = 8
    speculation.wants_logprobs[1] = True
    sampling.num_logprobs[1] = 2
    step = node.run(step_of(speculation, sampling, [0, 1], 2))
    assert step.step.draft is not None
    told = step.step.draft.logprobs
    assert told is not None
    assert [told is None for told in told] == [True, True, True, False, False, True]
    first, second = goes_on([8, 9], 2)
    assert [told[3].top_ids[0], told[4].top_ids[0]] == [first, second]
    assert (told[3].rank, len(told[3].top_ids)) == (1, 2)
    assert told[3].logprob == told[3].top_logprobs[0] < 0


def test_the_end_of_its_own_context_ends_its_guesses(sampling):
    node, text = draft(1, max_context=8), list(range(6))
    node._largest = 16
    speculation = rows_of([text])
    counts = []
    for _ in range(5):
        [said] = draft_tokens(node.run(step_of(speculation, sampling, [0], 4)))
        counts.append(len(said))
        speculation.token_ids[0].append(1)
    assert counts == [3, 2, 1, 0, 0]


def test_a_guess_that_the_target_does_not_know_is_none():
    node, text = draft(1, vocab_size=200), [5, 6, 7]
    node._largest = 8
    said = [int(fake_logits([np.array(text, np.int64)], 200)[0].argmax())]
    [drafted] = draft_tokens(node.run(step_of(rows_of([text]), SamplingSlots(1, said[0]), [0], 1)))
    assert drafted == []
    [drafted] = draft_tokens(node.run(step_of(rows_of([text]), SamplingSlots(1, said[0] + 1), [0], 1)))
    assert drafted == said


def test_a_draft_of_other_blocks_is_refused():
    with pytest.raises(ValueError, match="draft's blocks hold 8 tokens, the model's 4"):
        check_draft(FakeSession(block_tokens=8), FakeSession(block_tokens=4))


def test_a_draft_of_another_tokenizer_is_refused():
    with pytest.raises(ValueError, match="draft has 32000 tokens, the model 152064"):
        check_draft(FakeSession(vocab_size=32000), FakeSession(vocab_size=152064))
    check_draft(FakeSession(vocab_size=151936), FakeSession(vocab_size=152064))


class Coin:
    """Draft tokens of which each is accepted with the same chance, by the policy of drafts; `draft_s` for each ahead."""

    def __init__(
        self, random: Random, chance: float, texts: list[tuple[list[int], list[int]]], draft_s: float
    ) -> None:
        self.random, self.chance, self.draft_s = random, chance, draft_s
        self.texts = texts
        self.cost = StepCost()
        self.policy = DraftPolicy(5, True, self.cost)
        self.took_s = 0.0
        self.counts = np.zeros(0, np.int64)

    def draft_token(self, context: StepContext) -> StepContext:
        step, speculation = context.step, context.speculation
        computed, longest = step.num_past, np.full(step.num_seqs, 5, np.int32)
        self.counts = self.policy.counts(step, speculation, computed, longest)
        self.told = [self._ids(step, seq, int(count)) for seq, count in enumerate(self.counts)]
        self.policy.record_drafts(step, speculation, self)
        self.took_s = 0.0
        for ahead in range(int(self.counts.max())):
            seconds = self.draft_s * self.random.lognormvariate(0, 0.05)
            self.cost.learn(int(np.count_nonzero(self.counts > ahead)), seconds)
            self.took_s += seconds
        ids = np.array([token_id for ids in self.told for token_id in ids], np.int64)
        return context.with_step(with_draft_tokens(step, self.counts, ids))

    def of(self, seq: int) -> list[int]:
        return self.told[seq]

    def _ids(self, step: Step, seq: int, count: int) -> list[int]:
        prompt, output = self.texts[step.slots[seq]]
        at = int(step.num_past[seq]) + 1 - len(prompt)
        coming = output[at : at + count] + [0] * max(0, at + count - len(output))
        return [token_id if self.random.random() < self.chance else -1 for token_id in coming]


def drafted(chance: float, draft_s: float, num_texts: int = 1, num_tokens: int = 600, seed: int = 0) -> float:
    """How much sooner the texts are there."""
    draw = Random(seed)
    texts = [random_text(draw, num_tokens) for _ in range(num_texts)]
    coin = Coin(draw, chance, texts, draft_s)
    return play(coin.draft_token, texts, draw, draft_s=lambda: coin.took_s).speedup


def test_a_good_draft_makes_a_lone_text_come_sooner():
    assert drafted(0.85, 0.003) > 1.8


@pytest.mark.parametrize("seed", after(1, range(3)))
def test_a_bad_draft_is_switched_off(seed):
    assert drafted(0.05, 0.006, seed=seed) > 0.975


def test_a_draft_as_slow_as_its_target_is_switched_off():
    assert drafted(0.6, 0.019) > 0.97


def test_no_draft_pays_where_a_token_costs_what_it_gives():
    assert drafted(0.7, 0.02, num_texts=64, num_tokens=300) > 0.98


def test_a_draft_that_becomes_good_is_switched_on_again():
    draw = Random(4)
    texts = [random_text(draw, 3000)]
    coin = Coin(draw, 0.0, texts, 0.003)

    def draft_token(context: StepContext) -> StepContext:
        coin.chance = 0.9 if context.step.num_past[0] > 800 else 0.0
        return coin.draft_token(context)

    assert play(draft_token, texts, draw, draft_s=lambda: coin.took_s).speedup > 1.5
