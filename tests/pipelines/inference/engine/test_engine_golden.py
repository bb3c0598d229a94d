"""The golden property: text generated in any schedule equals text generated alone, and so do scores."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from breadth import after
from engine_life import Chances, Life, Wanted
from engine_rig import Rig, Text, alone

from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST
from pipelines.wire.sampling_params import BACKGROUND, SamplingParams

pytestmark = pytest.mark.slow

EOS = frozenset({3, 5})
NUM_SCHEDULES = 160


class Schedule(Life):
    """Ordinary requests, whose prompts often meet; `attending` to frames, which are often the same."""

    def __init__(
        self,
        seed: int,
        failing: bool = False,
        swapping: bool = False,
        keeps_states: bool = False,
        attending: bool = False,
    ) -> None:
        super().__init__(seed)
        lengths = [self.random.randint(1, 20) for _ in range(3)] if attending else []
        self.frames = [
            np.array([[float(self.random.randrange(1000))] for _ in range(length)], np.float32)
            for length in lengths
        ]
        self.failing, self.swapping = failing, swapping
        self.wanted: dict[int, Wanted] = {}
        draw = self.random
        block_tokens = draw.choice([1, 2, 4, 8])
        sizes = [(20, 30), (30, 40)] if self.swapping else [(12, 8), (40, 12), (60, 25)]
        self.max_prompt, self.max_tokens = draw.choice(sizes)
        longest = -(-(self.max_prompt + self.max_tokens) // block_tokens)
        max_sequences = draw.randint(3 if self.swapping else 1, 8)
        self.max_context = self.max_prompt + draw.randint(2, self.max_tokens)
        self.rig = Rig(
            max_sequences=max_sequences,
            max_step_tokens=max_sequences + draw.choice([1, 3, 8, 40]),
            num_blocks=draw.randint(longest, longest * draw.choice([1, 2, 1 if self.swapping else 5]))
            + -(-max(lengths, default=0) // block_tokens),
            block_tokens=block_tokens,
            max_context=self.max_context,
            eos_token_ids=EOS,
            reuse_prefixes=draw.random() < (0.5 if self.swapping else 0.8),
            num_host_blocks=draw.choice([longest // 2, longest, 9 * longest]) if self.swapping else 0,
            max_scored_tokens=draw.choice([1, 3, 10, 128]),
            keeps_states=keeps_states,
            encoder_hidden_size=1 if attending else 0,
            num_stored_states=draw.choice([0, 2, 20]) if keeps_states else 0,
        )
        self.roots = [self.ids(draw.randint(1, self.max_prompt)) for _ in range(3)]
        self.chances = Chances(
            arrive=draw.choice([0.4, 0.9] if self.swapping else [0.1, 0.4, 0.9]),
            preempt=0.05 if swapping or keeps_states else 0.0,
            lose=0.07 if failing else 0.0,
        )

    def prompt(self) -> list[int]:
        """Often the beginning of another prompt or of a whole earlier turn, so that prefixes meet."""
        draw = self.random
        beginnings = [*self.roots, []]
        for (key, choice), text in self.rig.texts.items():
            if text.finish == "length":
                request = self.wanted[key]
                beginnings.append(request.prompts[choice // request.n] + text.token_ids)
        beginning = draw.choice(beginnings)
        cut = beginning[: draw.randint(0, len(beginning))] if draw.random() < 0.3 else beginning
        return (cut + self.ids(draw.randint(1, 6)))[-self.max_prompt :]

    def params(self) -> SamplingParams:
        draw = self.random
        return SamplingParams(
            max_tokens=draw.randint(self.max_tokens // 2 if self.swapping else 0, self.max_tokens),
            min_tokens=draw.choice([0, 0, 3]),
            temperature=draw.choice([0.0, 1.0]),
            repetition_penalty=draw.choice([1.0, 1.0, 1.3]),
            stop_token_ids=draw.choice([[], [11, 12, 13]]),
            ignore_eos=draw.random() < 0.3,
            seed=draw.getrandbits(64),
            logprobs=draw.choice([None, None, None, 2]),
            prompt_logprobs=draw.choice([None, None, 0, 3]),
            priority=draw.choice([0, 0, 0, 1, -1, BACKGROUND, BACKGROUND]),
        )

    def request(self, key: int) -> None:
        draw = self.random
        n = draw.randint(1, min(3, self.rig.engine.scheduler.settings.max_sequences))
        prompts = [self.prompt() for _ in range(draw.choice([1, 1, 2]))]
        salt = draw.choice(["", "", "tenant"])
        frames = [draw.choice(self.frames) for _ in prompts] if self.frames else []
        self.wanted[key] = Wanted(prompts, self.params(), n, frames=frames)
        self.submit(key, self.wanted[key], salt)

    def check(self) -> None:
        texts_alone: dict[tuple[int, int], Text] = {}
        for (key, choice), text in self.rig.texts.items():
            request = self.wanted[key]
            prompt, draws = choice // request.n, request.params.temperature > 0
            frames = request.frames[prompt] if request.frames else None
            name = (key, choice if draws else prompt * request.n)
            if name not in texts_alone:
                texts_alone[name] = alone(
                    request.prompts[prompt], request.params, choice, EOS, self.max_context, frames=frames
                )
            want = texts_alone[name]
            if (self.failing and text.finish == "error") or (key, choice) in self.gone:
                assert text.token_ids == want.token_ids[: len(text.token_ids)]
                assert text.prompt_logprobs in (None, want.prompt_logprobs)
            else:
                assert text.token_ids == want.token_ids, (key, choice)
                assert text.prompt_logprobs == want.prompt_logprobs, (key, choice)
                assert (text.finish, text.stop_token_id) == (want.finish, want.stop_token_id)


@cache
def ran(seed: int, **kind: bool) -> Schedule:
    schedule = Schedule(seed, **kind)
    schedule.run()
    return schedule


@pytest.mark.parametrize("seed", after(3, range(NUM_SCHEDULES)))
def test_text_in_any_schedule_equals_text_alone(seed):
    ran(seed).check()


@pytest.mark.parametrize("seed", after(2, range(1000, 1060)))
def test_text_around_failing_steps_equals_text_alone(seed):
    ran(seed, failing=True).check()


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("seed", after(1, range(2000, 2050)))
def test_text_with_swapping_equals_text_alone(seed, failing):
    ran(seed, failing=failing, swapping=True).check()


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("seed", after(1, range(3000, 3060)))
def test_text_of_a_model_with_states_equals_text_alone(seed, failing):
    ran(seed, failing=failing, keeps_states=True).check()


@pytest.mark.breadth
def test_the_schedules_with_states_meet_forks_preemption_and_reuse():
    schedules = [ran(seed, failing=True, keeps_states=True) for seed in range(3000, 3020)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.preemptions for one in counts) > 20
    assert sum(one.prefix_hit_tokens for one in counts) > 50
    steps = [step for schedule in schedules for step in schedule.rig.steps]
    read = [step.states.table[:, 0] for step in steps]
    shared = [rows[rows != NO_STATE] for rows in read]
    assert sum(len(rows) - len(np.unique(rows)) for rows in shared) > 20
    assert sum((step.states.interval < ONLY_LAST).sum() for step in steps) > 20


@pytest.mark.parametrize("swapping", [False, True])
@pytest.mark.parametrize("seed", after(2, range(4000, 4060)))
def test_text_of_a_model_with_frames_equals_text_alone(seed, swapping):
    ran(seed, failing=seed % 2 == 0, swapping=swapping, attending=True).check()


@pytest.mark.breadth
def test_the_schedules_with_frames_meet_choices_preemption_and_reuse():
    schedules = [ran(seed, failing=True, swapping=False, attending=True) for seed in range(4000, 4020)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.preemptions for one in counts) > 10
    assert sum(one.prefix_hit_tokens for one in counts) > 20
    steps = [step for schedule in schedules for step in schedule.rig.steps]
    contexts = [set(map(tuple, step.cross.table.tolist())) for step in steps]
    assert sum(step.num_seqs - len(one) for step, one in zip(steps, contexts, strict=True)) > 100
    num_written = sum(len(step.cross.slots) > 0 for step in steps)
    assert sum(len(schedule.wanted) for schedule in schedules) < num_written < len(steps) / 2


@pytest.mark.breadth
def test_the_schedules_meet_preemption_reuse_copies_and_eviction():
    schedules = [ran(seed) for seed in range(20)]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.preemptions for one in counts) > 10
    assert sum(one.prefix_hit_tokens for one in counts) > 100
    assert sum(len(step.copies) for schedule in schedules for step in schedule.rig.steps) > 20
    assert any(schedule.gone for schedule in schedules)
    scored = [step.num_scored for schedule in schedules for step in schedule.rig.steps]
    assert sum(scored) > 500
    assert len({count for count in scored if count}) > 10


@pytest.mark.breadth
def test_the_swapping_schedules_swap_whole_contexts_parts_of_them_and_nothing():
    kinds = [(seed, failing) for seed in range(2000, 2010) for failing in (False, True)]
    schedules = [ran(seed, failing=failing, swapping=True) for seed, failing in kinds]
    counts = [schedule.rig.engine.counts() for schedule in schedules]
    assert sum(one.swap_preemptions for one in counts) > 50
    assert sum(one.preemptions - one.swap_preemptions for one in counts) > 50
    num_in, num_out = (sum(getattr(one, f"swapped_{way}_blocks") for one in counts) for way in ("in", "out"))
    assert 100 < num_in < num_out
    steps = [step for schedule in schedules for step in schedule.rig.steps]
    assert any(np.isin(step.swaps_out[:, 0], step.block_table).any() for step in steps)
