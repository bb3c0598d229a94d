"""The golden property with a model's own cache: text generated in any schedule equals text generated
alone.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import numpy as np
import pytest
from breadth import after
from engine_invariants import snapshot, violations
from lone_steps import step as lone_step
from small_onnx_decoders import VOCABULARY, small_decoder

from pipelines.inference.backends.onnxruntime.cpu import decoder_session as cpu
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams

BLOCK_TOKENS, MAX_CONTEXT = 8, 96
MOST_TOKENS = 30
CHOOSING = {"temperature": 1.0, "top_k": 2, "ignore_eos": True}
"""Choices of a prompt differ, and each token hangs on one number alone, which rounding hardly ever meets."""


def opened(**changes):
    """A session of a small decoder for all schedules; each allocates its own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "read_decoder", lambda path: small_decoder("f32", **changes))
        return OnnxCpuSession("model.onnx", OnnxCpuSettings(threads=1, block_tokens=BLOCK_TOKENS))


@pytest.fixture(scope="module")
def session():
    session = opened()
    yield session
    session.close()


@pytest.fixture(scope="module")
def mixture():
    session = opened(mixture={"experts": 5, "used": 2})
    yield session
    session.close()


class Schedule:
    """A random life of an engine over `session`: settings, arrivals and prompts, all drawn from one seed."""

    def __init__(self, session: OnnxCpuSession, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.session = session
        self.num_blocks = draw.randint(MAX_CONTEXT // BLOCK_TOKENS, 18)
        session.allocate(self.num_blocks)
        for blocks in session._cache._blocks.values():
            blocks[:-1] = 0xFF  # nan: who reads what nobody wrote gives himself away
        max_sequences = draw.randint(2, 6)
        settings = EngineSettings(max_sequences, max_sequences + draw.choice([2, 9, 40]), True)
        self.most_choices = min(3, max_sequences)
        shape = ModelShape(VOCABULARY, MAX_CONTEXT, BLOCK_TOKENS)
        self.engine = GenerationEngine(
            StepBody(self.body), settings, shape, CacheSize(self.num_blocks), frozenset()
        )
        self.roots = [self.ids(draw.randint(10, 50)) for _ in range(2)]
        self.asked: dict[int, tuple[list[int], SamplingParams]] = {}
        self.texts: dict[tuple[int, int], list[int]] = {}
        self.seen: Counter[str] = Counter()

    def ids(self, count: int) -> list[int]:
        return [self.draw.randrange(VOCABULARY) for _ in range(count)]

    def body(self, context: StepContext) -> Sampled:
        step = context.step
        self.seen["copies"] += len(step.copies)
        self.seen["mixed"] += len(set(np.diff(step.starts).tolist())) > 1
        return sample(Logits(self.session.run(context.step), context))

    def arrive(self, key: int) -> None:
        root = self.draw.choice([*self.roots, []])
        prompt = root[: self.draw.randint(0, len(root))] + self.ids(self.draw.randint(1, 9))
        params = SamplingParams(
            max_tokens=self.draw.randint(3, MOST_TOKENS), seed=self.draw.getrandbits(64), **CHOOSING
        )
        choices = self.draw.randint(1, self.most_choices)
        self.asked[key] = prompt, params
        self.texts |= {(key, choice): [] for choice in range(choices)}
        self.engine.submit(key, GenerationRequest([prompt], params, choices))

    def run(self, num_requests: int = 8) -> Counter[str]:
        key = 0
        while key < num_requests or self.engine.has_work:
            if key < num_requests and self.draw.random() < 0.5:
                self.arrive(key)
                key += 1
            for output in self.engine.step():
                assert output.error is None
                self.texts[output.key, output.choice] += output.piece.token_ids
            assert violations(snapshot(self.engine)) == []
        counts = self.engine.counts()
        assert counts.blocks_used == 0
        return self.seen + Counter(preemptions=counts.preemptions, reused=counts.prefix_hit_tokens)

    def alone(self, key: int, choice: int) -> list[int]:
        """What the prompt gives with no engine: its whole context computed anew for each token."""
        prompt, params = self.asked[key]
        rows, text = SamplingSlots(1, VOCABULARY), []
        rows.set(0, params, prompt, [], choice, [])
        blocks = list(range(MAX_CONTEXT // BLOCK_TOKENS))
        while len(text) < params.max_tokens:
            context = prompt + text
            step = lone_step(context, 0, blocks[: -(-len(context) // BLOCK_TOKENS)], [len(context) - 1])
            text.append(int(sample(Logits(self.session.run(step), StepContext(step, rows))).token_ids[0]))
            rows.append(0, text[-1])
        return text


@pytest.fixture(scope="module")
def ran(session):
    """`ran(seed)` → the schedule of that seed, which ran once, and what it met."""

    @cache
    def run(seed):
        schedule = Schedule(session, seed)
        return schedule, schedule.run()

    return run


@pytest.mark.parametrize("seed", after(1, range(12)))
def test_text_in_any_schedule_equals_text_alone(ran, seed):
    schedule, _ = ran(seed)
    assert schedule.texts == {one: schedule.alone(*one) for one in schedule.texts}


@pytest.mark.parametrize("seed", after(1, range(8)))
def test_text_of_a_mixture_in_any_schedule_equals_text_alone(mixture, seed):
    schedule = Schedule(mixture, seed)
    schedule.run()
    assert schedule.texts == {one: schedule.alone(*one) for one in schedule.texts}


def test_the_schedules_meet_preemption_reuse_copies_and_mixed_steps(ran):
    seen = sum((ran(seed)[1] for seed in range(4)), Counter())
    assert seen["preemptions"] > 2
    assert seen["reused"] > 50
    assert seen["copies"] > 2
    assert seen["mixed"] > 20


def test_choices_of_a_prompt_differ(ran):
    schedule, _ = ran(0)
    several = {key for key, choice in schedule.texts if choice}
    assert several
    assert all(schedule.texts[key, 0] != schedule.texts[key, 1] for key in several)
