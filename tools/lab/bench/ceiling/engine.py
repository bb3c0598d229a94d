"""Measures the engine with the fake model: the processor time of each part of a step."""

from __future__ import annotations

from time import thread_time
from typing import NamedTuple

from pipelines.inference.backends.fake_decoder import FakeSession
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.bench.ceiling.model import BLOCK_TOKENS, NUM_WORDS, SIGHT_TOKENS

PROMPT_STEP_TOKENS = 16384


class Parts(NamedTuple):
    """Processor seconds of one step: planning and packing, the fake model, sampling, committing."""

    feed_s: float
    model_s: float
    sample_s: float
    commit_s: float


class Decoding:
    """An engine with `num_seqs` sequences of `context` tokens, which decode at most `max_tokens` each."""

    def __init__(self, num_seqs: int, context: int, max_tokens: int) -> None:
        self._marks_s: list[float] = []
        length = context + max_tokens + 1
        num_blocks = num_seqs * (length // BLOCK_TOKENS + 2)
        self._session = FakeSession(NUM_WORDS, BLOCK_TOKENS, length, sight_tokens=SIGHT_TOKENS)
        self._session.allocate(num_blocks)
        settings = EngineSettings(num_seqs, PROMPT_STEP_TOKENS, reuse_prefixes=False)
        self._engine = GenerationEngine(
            StepBody(self._body), settings, self._session.shape, CacheSize(num_blocks), frozenset()
        )
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, temperature=0.0)
        for number in range(num_seqs):
            prompt = [(number + place) % NUM_WORDS for place in range(context)]
            self._engine.submit(number, GenerationRequest([prompt], params))
        while self._engine.counts().output_tokens < num_seqs:
            self._engine.step()

    def step(self) -> Parts:
        """One step, in which every sequence gets a token."""
        self._marks_s = [thread_time()]
        self._engine.step()
        begin_s, fed_s, ran_s, sampled_s = self._marks_s
        return Parts(fed_s - begin_s, ran_s - fed_s, sampled_s - ran_s, thread_time() - sampled_s)

    def _body(self, context: StepContext) -> Sampled:
        fed_s = thread_time()
        values = self._session.run(context.step)
        ran_s = thread_time()
        sampled = sample(Logits(values, context))
        self._marks_s += [fed_s, ran_s, thread_time()]
        return sampled
