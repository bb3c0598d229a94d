"""Beam search in the engine: in any schedule it finds what the search alone finds, and gives everything
back.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from beam_reference import log_softmax, search
from breadth import after
from engine_invariants import snapshot, violations
from engine_life import Chances, Life, Wanted
from engine_rig import VOCAB_SIZE, Rig, Text, alone

from pipelines.base.errors import RequestError
from pipelines.inference.backends.fake_decoder import fake_logits
from pipelines.wire.sampling_params import (
    BACKGROUND,
    Beams,
    GuideSpec,
    RepetitionDetection,
    SamplingParams,
    Thinking,
)

EOS = frozenset({3, 5, 20, 21, 22, 23, 24, 25})


def wanted(prompt: list[int], params: SamplingParams, n: int, max_context: int = 200) -> list[Text]:
    """What the `n` choices of a prompt get from a search with no engine at all."""
    assert params.beams is not None
    ends = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else EOS)
    max_tokens = min(params.max_tokens, max_context - len(prompt))
    beams = search(prompt, params.beams, max_tokens, ends, VOCAB_SIZE)[:n]
    eos = frozenset() if params.ignore_eos else EOS
    return [
        Text(
            beam.token_ids,
            "length" if beam.end is None else "stop",
            None if beam.end is None or beam.end in eos else beam.end,
        )
        for beam in beams
    ]


def said(text: Text) -> tuple[list[int], str | None, int | None]:
    return text.token_ids, text.finish, text.stop_token_id


class Schedule(Life):
    """Searches among ordinary requests in a small engine."""

    def __init__(self, seed: int, failing: bool = False) -> None:
        super().__init__(seed)
        self.failing = failing
        self.wanted: dict[int, Wanted] = {}
        draw = self.random
        self.block_tokens = draw.choice([1, 2, 4, 8])
        self.max_context = draw.randint(16, 40)
        max_sequences = draw.randint(4, 8)
        self.width = draw.randint(2, 4)
        longest = self.width * -(-self.max_context // self.block_tokens)
        self.rig = Rig(
            max_sequences=max_sequences,
            max_step_tokens=max_sequences + draw.choice([1, 3, 8, 40]),
            num_blocks=draw.randint(longest, longest * draw.choice([1, 1, 1, 3])),
            block_tokens=self.block_tokens,
            max_context=self.max_context,
            eos_token_ids=EOS,
            reuse_prefixes=draw.random() < 0.7,
            num_host_blocks=draw.choice([0, longest // 2, 9 * longest]),
        )
        self.root = self.ids(draw.randint(4, self.max_context - 10))
        self.chances = Chances(draw.choice([0.2, 0.9]), 0.02, 0.15, 0.05 if failing else 0.0)

    def params(self) -> SamplingParams:
        draw = self.random
        beams = Beams(
            draw.choice([1, self.width, self.width]),
            draw.choice([0.0, 1.0, 2.0]),
            draw.choice([False, True, "never"]),
        )
        return SamplingParams(
            max_tokens=draw.randint(1, 25),
            temperature=0.0,
            stop_token_ids=draw.choice([[], [11, 12]]),
            ignore_eos=draw.random() < 0.3,
            beams=beams if draw.random() < 0.7 else None,
            priority=draw.choice([0, 0, 1, -1, BACKGROUND]),
        )

    def request(self, key: int) -> None:
        draw, params = self.random, self.params()
        n = draw.randint(1, params.beams.width if params.beams else 3)
        prompts = [
            self.root[: draw.choice([0, len(self.root)])] + self.ids(draw.randint(1, 5))
            for _ in range(draw.choice([1, 1, 2]))
        ]
        self.wanted[key] = Wanted(prompts, params, n)
        self.submit(key, self.wanted[key])

    def check(self) -> None:
        for key, request in self.wanted.items():
            for place, prompt in enumerate(request.prompts):
                self.check_choices(key, place * request.n, prompt, request)

    def check_choices(self, key: int, first: int, prompt: list[int], request: Wanted) -> None:
        params, n = request.params, request.n
        if params.beams is None:
            replies = [alone(prompt, params, k, EOS, self.max_context) for k in range(n)]
        else:
            replies = wanted(prompt, params, n, self.max_context)
        for k, want in enumerate(replies):
            text = self.rig.texts[key, first + k]
            if (self.failing and text.finish == "error") or (key, first + k) in self.gone:
                if params.beams is not None and text.finish in ("error", None):
                    assert text.token_ids == []
            else:
                assert said(text) == said(want), (key, first + k)
            if params.beams is not None:
                assert len(text.outputs) <= 1


@cache
def ran(seed: int, failing: bool = False) -> Schedule:
    schedule = Schedule(seed, failing)
    schedule.run()
    return schedule


@pytest.mark.parametrize("seed", after(4, range(80)))
def test_searches_in_any_schedule_equal_searches_alone(seed):
    schedule = ran(seed)
    schedule.check()
    assert {text.finish for text in schedule.rig.texts.values()} <= {"stop", "length", None}


@pytest.mark.parametrize("seed", after(2, range(1000, 1040)))
def test_searches_around_failing_steps_equal_searches_alone(seed):
    ran(seed, failing=True).check()


@pytest.mark.breadth
def test_the_schedules_meet_copies_reuse_rest_and_every_kind_of_preemption():
    schedules = [ran(seed) for seed in range(20)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.swap_preemptions for one in counts) > 20
    assert sum(one.preemptions - one.swap_preemptions for one in counts) > 100
    assert sum(one.prefix_hit_tokens for one in counts) > 100
    assert sum(len(step.copies) for schedule in schedules for step in schedule.rig.steps) > 500


@pytest.mark.parametrize("num_host_blocks", [0, 20])
@pytest.mark.parametrize("num_tokens", range(2, 8))
def test_a_beam_that_rests_may_be_preempted(num_tokens, num_host_blocks):
    rig = Rig(max_step_tokens=5, block_tokens=4, reuse_prefixes=False, num_host_blocks=num_host_blocks)
    rig.submit("a", [1] * 18, beams=Beams(3), max_tokens=12)
    while len(rig.engine.scheduler.running) < 3 or rig.engine.scheduler.running[0].num_output < num_tokens:
        rig.step()
    rig.preempt()
    rig.step()
    rig.preempt()
    resting = rig.engine.scheduler.running
    assert [beam.num_pending for beam in resting] == [0, 0]
    rig.preempt()
    rig.preempt()
    rig.run()
    (want,) = wanted([1] * 18, SamplingParams(max_tokens=12, beams=Beams(3), ignore_eos=True), 1)
    assert said(rig.texts["a", 0]) == said(want)


def lone_search(**options: object) -> Rig:
    """Two beams at the end of their context, in a cache that holds just them; the second is set back."""
    rig = Rig(num_blocks=4, block_tokens=4, reuse_prefixes=False, max_step_tokens=6)
    rig.submit("a", [1, 2, 3, 4], beams=Beams(2), max_tokens=5, **options)
    for _ in range(3):
        rig.step()
    rig.preempt()
    return rig


def test_a_beam_is_admitted_although_those_that_rest_leave_no_block_to_spare():
    rig = lone_search()
    rig.run(max_steps=20)
    (want,) = wanted([1, 2, 3, 4], SamplingParams(max_tokens=5, beams=Beams(2)), 1)
    assert said(rig.texts["a", 0]) == said(want)
    assert rig.engine.counts().preemptions == 1


def test_beams_that_rest_make_room_for_who_goes_first():
    rig = lone_search(priority=1)
    rig.submit("b", [9] * 13, max_tokens=3)
    rig.run(max_steps=40)
    (want,) = wanted([1, 2, 3, 4], SamplingParams(max_tokens=5, beams=Beams(2)), 1)
    assert said(rig.texts["a", 0]) == said(want)
    assert said(rig.texts["b", 0]) == said(alone([9] * 13, SamplingParams(max_tokens=3, temperature=0)))


def test_only_a_beam_may_rest_and_only_while_another_is_missing():
    rig = lone_search()
    rig.step()
    state = snapshot(rig.engine)
    (resting,) = [one for one in state.running if one.num_cached == len(one.token_ids)]
    assert violations(state) == []
    object.__setattr__(resting, "may_rest", False)
    assert any("cached, of" in line for line in violations(state))


def running_search(**options: object) -> Rig:
    """Two prompts with three beams each, two answers wanted of each, in the middle of it."""
    rig = Rig(max_sequences=8)
    rig.submit("a", [1, 2, 3], [4, 5], n=2, beams=Beams(3), max_tokens=30, **options)
    for _ in range(5):
        rig.step()
    return rig


def test_choices_are_numbered_by_prompt_and_come_whole_and_best_first():
    rig = running_search()
    assert rig.engine.num_active == 6
    assert not any(text.outputs for text in rig.texts.values())
    rig.run()
    params = SamplingParams(max_tokens=30, beams=Beams(3), ignore_eos=True)
    want = [text for prompt in ([1, 2, 3], [4, 5]) for text in wanted(prompt, params, 2)]
    assert [said(rig.texts["a", choice]) for choice in range(4)] == [said(text) for text in want]
    assert [len(text.outputs) for text in rig.texts.values()] == [1] * 4
    assert rig.engine.counts().output_tokens == 4 * 30


@pytest.mark.parametrize("count", [0, 2, 50])
def test_log_probabilities_are_those_of_the_texts_that_won(count):
    rig = Rig(eos_token_ids=EOS)
    rig.submit("a", [20, 2, 3], n=3, beams=Beams(3), max_tokens=8, logprobs=count, stop_token_ids=[8, 9])
    rig.run()
    assert {text.finish for text in rig.texts.values()} == {"length", "stop"}
    for (output,) in (text.outputs for text in rig.texts.values()):
        assert len(output.piece.logprobs.tokens) == len(output.piece.token_ids)
        for place, (token_id, told) in enumerate(
            zip(output.piece.token_ids, output.piece.logprobs.tokens, strict=True)
        ):
            context = np.array([20, 2, 3, *output.piece.token_ids[:place]], np.int64)
            values = log_softmax(fake_logits([context], VOCAB_SIZE))[0]
            likeliest = np.argsort(-values, kind="stable")
            assert told.logprob == pytest.approx(values[token_id], abs=1e-5)
            assert told.rank == 1 + likeliest.tolist().index(token_id)
            assert told.top_ids == likeliest[:count].tolist()
            assert told.top_logprobs == pytest.approx(values[likeliest[:count]], abs=1e-5)


def test_prompt_tokens_that_were_cached_are_told():
    rig = Rig(block_tokens=4)
    for key in "ab":
        rig.submit(key, [1] * 9, n=2, beams=Beams(2), max_tokens=2)
        rig.run()
    assert [rig.texts[key, choice].num_cached for key in "ab" for choice in range(2)] == [0, 0, 8, 8]


def test_the_search_goes_on_while_one_of_its_choices_is_waited_for():
    rig = running_search()
    rig.cancel("a", 0)
    rig.cancel("a", 0)
    assert rig.engine.num_active == 6
    rig.run()
    assert [bool(rig.texts["a", choice].outputs) for choice in range(4)] == [False, True, True, True]


def test_without_its_last_choice_a_search_is_gone_at_once():
    rig = running_search()
    rig.cancel("a", 0)
    rig.cancel("a", 1)
    assert (rig.engine.num_active, rig.engine.counts().running) == (3, 3)
    rig.cancel("a")
    assert (rig.engine.has_work, rig.engine.counts().blocks_used) == (False, 0)


def test_a_search_may_be_aborted_before_its_prompt_is_computed():
    rig = Rig(max_sequences=3, max_step_tokens=4)
    rig.submit("a", [1] * 20, n=2, beams=Beams(3))
    rig.step()
    rig.cancel("a", 1)
    rig.cancel("a", 0)
    assert (rig.engine.has_work, rig.engine.counts().blocks_used) == (False, 0)


def test_a_failed_step_ends_the_whole_search_even_beams_that_wait():
    rig = lone_search(n=2)
    rig.submit("b", [7] * 3, max_tokens=2)

    def lose(step: object) -> None:
        raise RuntimeError("device lost")

    rig.before = lose
    outputs = rig.step()
    assert [(output.key, output.choice, output.piece.finish) for output in outputs] == [
        ("a", 0, "error"),
        ("a", 1, "error"),
    ]
    rig.before = lambda step: None
    rig.run()
    assert rig.texts["b", 0].finish == "length"


def test_a_beam_that_finds_no_row_ends_the_search_and_what_the_step_had_planned_for_it(monkeypatch):
    rig = Rig(max_step_tokens=60, reuse_prefixes=False)
    rig.submit("a", [1] * 5, beams=Beams(3), max_tokens=20)
    rig.submit("b", [2] * 5, max_tokens=9)
    for _ in range(4):
        rig.step()
    for _ in range(3):
        rig.preempt()
    seat, last = rig.engine.scheduler.tables._set_sampling, [*rig.engine.scheduler.waiting][1]

    def refuse(sequence: object) -> None:
        if sequence is last:
            raise ValueError("no")
        seat(sequence)

    monkeypatch.setattr(
        type(rig.engine.scheduler.tables), "_set_sampling", lambda self, sequence: refuse(sequence)
    )
    rig.run()
    assert (rig.texts["a", 0].finish, rig.texts["b", 0].finish) == ("error", "length")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"n": 3}, "n"),
        ({"beams": Beams(0)}, "n"),
        ({"beams": Beams(5)}, "n"),
        ({"beams": Beams(2, length_penalty=float("nan"))}, "length_penalty"),
        ({"beams": Beams(2, length_penalty=31.0)}, "length_penalty"),
        ({"beams": Beams(2, early_stopping="soon")}, "early_stopping"),  # type: ignore[arg-type]
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 150, "beams": Beams(4)}, "max_tokens"),
        ({"stop_token_ids": list(range(96))}, "n"),
        ({"temperature": 0.7}, "temperature"),
        ({"top_p": 0.9}, "top_p"),
        ({"top_k": 5}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"min_tokens": 2}, "min_tokens"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {1: 2.0}}, "logit_bias"),
        ({"allowed_token_ids": [1, 2]}, "allowed_token_ids"),
        ({"bad_words_ids": [[1]]}, "bad_words"),
        ({"logprobs": 1, "logprob_token_ids": [4]}, "logprob_token_ids"),
        ({"temp_scaled_logprobs": True}, "temp_scaled_logprobs"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"repetition_detection": RepetitionDetection(3, 2)}, "repetition_detection"),
        ({"guide": GuideSpec(grammar="start: /a/")}, "structured_outputs"),
        ({"guide": GuideSpec(thinking=Thinking("<", ">", budget=3))}, "thinking_token_budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_search_can_honour_is_refused(options, field):
    rig = Rig(num_blocks=64, block_tokens=4)
    with pytest.raises(RequestError) as caught:
        rig.submit("a", [1, 2, 3], **{"n": 1, "beams": Beams(2)} | options)
    assert caught.value.field == field
    assert not rig.engine.has_work


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_changes_no_search_is_taken(temperature):
    rig = Rig()
    guide = GuideSpec(thinking=Thinking("<", ">"))
    rig.submit("a", [1, 2], beams=Beams(2), temperature=temperature, seed=7, guide=guide, max_tokens=4)
    rig.run()
    (want,) = wanted([1, 2], SamplingParams(max_tokens=4, beams=Beams(2), ignore_eos=True), 1)
    assert said(rig.texts["a", 0]) == said(want)
