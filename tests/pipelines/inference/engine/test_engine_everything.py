"""All that the engine does at once, at random: each choice still gets what it gets alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from beam_reference import search
from breadth import after
from engine_life import Chances, Life, Wanted
from engine_rig import VOCAB_SIZE, Rig, Text, lone_step, scores_alone
from fake_guide import FakeGuide
from oracle_speculator import OracleSpeculator

from pipelines.inference.backends.fake_decoder import fake_logits
from pipelines.inference.contracts.guide import GuideError, GuideMaker
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, Masks, StepContext
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.wire.sampling_params import BACKGROUND, Beams, RepetitionDetection, SamplingParams

pytestmark = pytest.mark.slow

EOS = frozenset({3, 5, 20, 21})
DEMO = Path(__file__).parents[4] / "model_repo" / "braid-demo" / "model"
STOP = [11, 12, 13, 14]
SEEDS = [*range(4, 60), *range(4)]
NUM_SEEDS = 8
"""These schedules meet everything; `make test` has the first quarter of them."""


@dataclass
class Guided(Wanted):
    """A request whose guides, if it has any, are all of one seed."""

    guide_seed: int | None
    guides: list[FakeGuide] = field(default_factory=list)

    @property
    def guide(self) -> GuideMaker | None:
        return None if self.guide_seed is None or self.params.beams else self.make_guide

    def make_guide(self) -> FakeGuide:
        assert self.guide_seed is not None
        self.guides.append(FakeGuide(self.guide_seed, VOCAB_SIZE))
        return self.guides[-1]


class Schedule(Life):
    """Every kind of request in a small engine."""

    def __init__(
        self,
        seed: int,
        grammar: Grammar,
        failing: bool = False,
        speculation: bool = False,
        keeps_states: bool = False,
    ) -> None:
        super().__init__(seed)
        draw = self.random
        self.failing = failing
        self.max_context = draw.randint(20, 60)
        block_tokens, max_sequences = draw.choice([1, 2, 4, 8]), draw.randint(3, 8)
        self.width = draw.randint(1, 3)
        longest = self.width * -(-self.max_context // block_tokens)
        self.rig = Rig(
            max_sequences=max_sequences,
            max_step_tokens=max_sequences + draw.choice([1, 3, 8, 40]),
            num_blocks=draw.randint(longest, longest * draw.choice([1, 1, 1, 2])),
            block_tokens=block_tokens,
            max_context=self.max_context,
            eos_token_ids=EOS,
            reuse_prefixes=draw.random() < 0.5,
            num_host_blocks=0 if keeps_states else draw.choice([0, longest, 9 * longest]),
            max_scored_tokens=draw.choice([1, 3, 128]),
            num_draft_tokens=draw.choice([1, 6, 12]) if speculation else 0,
            keeps_states=keeps_states,
        )
        if speculation:
            OracleSpeculator(self.rig, self.foresight, draw, draw.choice([0.0, 0.2, 0.8]))
        self.grammar = grammar
        self.rig.masked = grammar.run
        self.chances = Chances(draw.choice([0.2, 0.9]), 0.03, 0.2, 0.05 if failing else 0.0)
        self.root = self.ids(draw.randint(1, self.max_context - 8))
        self.wanted: dict[int, Guided] = {}
        self.texts_alone: dict[tuple[int, int], list[Text]] = {}

    def begin(self, context: StepContext) -> None:
        self.grammar.prepare(context)

    def params(self) -> SamplingParams:
        draw = self.random
        common = SamplingParams(
            max_tokens=draw.choice([1, 20, 60, 60]),
            temperature=0.0,
            stop_token_ids=draw.choice([[], STOP]),
            ignore_eos=draw.random() < 0.3,
            logprobs=draw.choice([None, None, 2]),
            priority=draw.choice([0, 0, 1, -1, BACKGROUND]),
        )
        if draw.random() < 0.25:
            return replace(common, beams=Beams(self.width, 1.0, draw.choice([False, True, "never"])))
        return replace(
            common,
            max_tokens=draw.choice([0, common.max_tokens, common.max_tokens]),
            min_tokens=draw.choice([0, 0, 4]),
            temperature=draw.choice([0.0, 1.0]),
            repetition_penalty=draw.choice([1.0, 1.0, 1.3]),
            allowed_token_ids=draw.choice([None, None, [6, 7]]),
            bad_words_ids=draw.choice([[], [[6, 6, 7], [40]]]),
            seed=draw.getrandbits(64),
            prompt_logprobs=draw.choice([None, None, 0, 3]),
            repetition_detection=draw.choice([None, RepetitionDetection(3, 3)]),
            num_draft_tokens=draw.choice([None, None, 0, 2, 12]),
        )

    def request(self, key: int) -> None:
        draw, params = self.random, self.params()
        n = draw.randint(1, self.width if params.beams else 3)
        beginning = self.root[: draw.choice([0, len(self.root), draw.randrange(len(self.root))])]
        prompts = [beginning + self.ids(draw.randint(1, 6)) for _ in range(draw.choice([1, 1, 2]))]
        seed = draw.choice([None, draw.getrandbits(30)])
        self.wanted[key] = wanted = Guided(prompts, params, n, seed)
        self.submit(key, wanted, draw.choice(["", "", "tenant"]), wanted.guide)

    def check(self) -> None:
        for (key, choice), text in self.rig.texts.items():
            want = self.alone(key, choice)
            lost = (key, choice) in self.gone or (self.failing and text.finish == "error")
            if lost and not self.wanted[key].params.beams:
                assert text.token_ids == want.token_ids[: len(text.token_ids)], (key, choice)
            elif not lost:
                assert said(text) == said(want), (key, choice)
            if text.outputs and text.finish != "error":
                assert text.prompt_logprobs == want.prompt_logprobs, (key, choice)

    def foresight(self, key: Hashable, choice: int) -> list[int]:
        assert isinstance(key, int)
        return self.alone(key, choice).token_ids

    def alone(self, key: int, choice: int) -> Text:
        """What a choice gets alone: once for each, or once for all of a prompt that draw nothing."""
        asked = self.wanted[key]
        place, rank = divmod(choice, asked.n)
        prompt, params, draws = asked.prompts[place], asked.params, asked.params.temperature > 0
        name = (key, choice if draws else choice - rank)
        if name not in self.texts_alone:
            self.texts_alone[name] = (
                [sampled(prompt, params, choice, asked.guide, self.max_context)]
                if params.beams is None
                else best(prompt, params, self.max_context)
            )
        return self.texts_alone[name][0 if params.beams is None else rank]


def said(text: Text) -> tuple[list[int], str | None, int | None]:
    return text.token_ids, text.finish, text.stop_token_id


def best(prompt: list[int], params: SamplingParams, max_context: int) -> list[Text]:
    """What a search finds with no engine at all."""
    assert params.beams is not None
    eos = frozenset() if params.ignore_eos else EOS
    room = min(params.max_tokens, max_context - len(prompt))
    found = search(prompt, params.beams, room, eos | set(params.stop_token_ids), VOCAB_SIZE)
    return [
        Text(one.token_ids, "length" if one.end is None else "stop", None if one.end in eos else one.end)
        for one in found
    ]


def sampled(
    prompt: list[int], params: SamplingParams, choice: int, make: GuideMaker | None, max_context: int
) -> Text:
    """What is drawn with no engine at all: hash the whole context, mask, sample, append what is forced."""
    guide = make() if make else None
    text = Text(prompt_logprobs=scores_alone(prompt, params))
    eos = frozenset() if params.ignore_eos else EOS
    rows = SamplingSlots(1, VOCAB_SIZE)
    rows.set(0, replace(params, logprobs=None), prompt, [], choice, sorted(eos | set(params.stop_token_ids)))
    step = lone_step(rows)
    if params.max_tokens == 0:
        text.finish = "length"
    while text.finish is None:
        values = fake_logits([np.array(prompt + text.token_ids, np.int64)], VOCAB_SIZE)
        masks = None
        if guide is not None and guide.restricts():
            bits = np.empty((1, -(-VOCAB_SIZE // 32)), np.int32)
            guide.fill(bits[0])
            masks = Masks(np.zeros(1, np.int64), bits.view(np.uint32))
        token_id = int(sample(Logits(values, step, masks=masks)).token_ids[0])
        try:
            token_ids = [token_id, *(guide.append(token_id) if guide else [])]
        except (GuideError, RuntimeError):
            text.finish = "error"
            break
        ended = guide is not None and guide.finished
        for token_id in token_ids[:-1] if ended else token_ids:
            if text.finish is None:
                append_token(text, token_id, eos, params, min(params.max_tokens, max_context - len(prompt)))
                rows.append(0, token_id)
        if text.finish is None and ended:
            end_by(text, token_ids[-1], eos, params)
    return text


def end_by(text: Text, token_id: int, eos: frozenset[int], params: SamplingParams) -> None:
    text.token_ids.append(token_id)
    text.finish = "stop"
    if token_id in params.stop_token_ids and token_id not in eos:
        text.stop_token_id = token_id


def append_token(text: Text, token_id: int, eos: frozenset[int], params: SamplingParams, room: int) -> None:
    if token_id in eos or token_id in params.stop_token_ids:
        end_by(text, token_id, eos, params)
    else:
        text.token_ids.append(token_id)
        if len(text.token_ids) == room:
            text.finish = "length"
        elif repeats(text.token_ids, params):
            text.finish = "repetition"


def repeats(token_ids: list[int], params: SamplingParams) -> bool:
    """Whether they end with a pattern as often as `repetition_detection` says."""
    wanted = params.repetition_detection
    if wanted is None or len(token_ids) < params.min_tokens:
        return False
    sizes = range(wanted.min_pattern_size, wanted.max_pattern_size + 1)
    return any(
        token_ids[-size * wanted.min_count :] == token_ids[-size:] * wanted.min_count for size in sizes
    )


@pytest.fixture(scope="module")
def grammar():
    """A grammar node for its threads; no request here has a grammar."""
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), DEMO)
    node.start(2048, EOS)
    yield node
    node.close()


@pytest.fixture(scope="module")
def ran(grammar):
    """`ran(seed, failing, speculation)` → a schedule, run once."""

    @cache
    def run(seed: int, failing: bool, speculation: bool) -> Schedule:
        schedule = Schedule(seed, grammar, failing, speculation)
        schedule.run()
        return schedule

    return run


@pytest.mark.parametrize("speculation", [False, True])
@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("seed", after(NUM_SEEDS // 4, SEEDS))
def test_everything_at_once_gives_each_choice_what_it_gets_alone(ran, seed, failing, speculation):
    ran(seed, failing, speculation).check()


@pytest.mark.parametrize("speculation", [False, True])
@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("seed", after(1, range(100, 140)))
def test_everything_over_a_model_with_states_gives_each_choice_what_it_gets_alone(
    grammar, seed, failing, speculation
):
    schedule = Schedule(seed, grammar, failing, speculation, keeps_states=True)
    schedule.run()
    schedule.check()


@pytest.mark.breadth
def test_the_schedules_over_a_model_with_states_undo_draft_tokens_and_reuse_prefixes(grammar):
    schedules = [Schedule(seed, grammar, speculation=True, keeps_states=True) for seed in range(100, 108)]
    counts = [schedule.run() for schedule in schedules]
    assert sum(one.accepted_tokens for one in counts) > 50
    assert sum(one.draft_tokens - one.accepted_tokens for one in counts) > 20
    assert sum(one.prefix_hit_tokens for one in counts) > 20


@pytest.mark.breadth
def test_the_schedules_meet_everything(ran):
    schedules = [ran(seed, *ways) for seed in SEEDS[:NUM_SEEDS] for ways in product([False, True], repeat=2)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    for name in ("preemptions", "swap_preemptions", "swapped_in_blocks", "prefix_hit_tokens"):
        assert sum(getattr(count, name) for count in counts) > 10, name
    endings = Counter(text.finish for schedule in schedules for text in schedule.rig.texts.values())
    assert min(endings[finish] for finish in ("stop", "length", "repetition", "error", None)) > 2, endings
    wanted = [case for schedule in schedules for case in schedule.wanted.values()]
    assert sum(guide.num_forced for case in wanted for guide in case.guides) > 100
    assert sum(case.params.beams is not None for case in wanted) > 20
    assert sum(count.accepted_tokens for count in counts) > 50
    assert sum(count.draft_tokens - count.accepted_tokens for count in counts) > 20
    assert sum(step.num_scored for schedule in schedules for step in schedule.rig.steps) > 500
