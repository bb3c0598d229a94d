"""Prompts that meet in one engine, mid-way and in chunks, and what greedy sampling makes of them."""

from __future__ import annotations

from collections.abc import Callable

from engine_invariants import snapshot, violations

from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import Sampled, Step
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.step_context import StepContext
from pipelines.wire.sampling_params import SamplingParams

NUM_TOKENS = 20
CHUNK_TOKENS = 40
MAX_SEQUENCES = 8


def greedy_engine(
    session: DecoderSession, num_blocks: int, watch: Callable[[Step], None] = lambda step: None
) -> GenerationEngine:
    """An engine over `session`, whose cache is allocated here; `watch` sees every step before it runs."""

    def body(context: StepContext) -> Sampled:
        watch(context.step)
        return Sampled(session.run(context.step).argmax(axis=1), [])

    session.reserve(CHUNK_TOKENS, MAX_SEQUENCES)
    num_states = 3 * MAX_SEQUENCES if session.shape.state_bytes else 0
    session.allocate(num_blocks, num_states=num_states)
    return GenerationEngine(
        StepBody(body),
        EngineSettings(MAX_SEQUENCES, CHUNK_TOKENS),
        session.shape,
        CacheSize(num_blocks, num_states),
        frozenset(),
    )


def generate_together(
    engine: GenerationEngine, prompts: list[list[int]], preempting: bool = False
) -> tuple[list[list[int]], int]:
    """The tokens of each prompt and how many prompt tokens the prefix cache gave; prompts join mid-way.

    `preempting`: now and then the youngest sequence is preempted, as if blocks had run out.
    """
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    texts: list[list[int]] = [[] for _ in prompts]
    cached = [0 for _ in prompts]
    waiting = list(enumerate(prompts))
    while waiting or engine.has_work:
        if waiting:
            number, prompt = waiting.pop(0)
            engine.submit(number, GenerationRequest([prompt], params))
        if preempting and engine.scheduler.running and engine.counts().steps % 5 == 4:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for _ in range(3):
            for output in engine.step():
                texts[output.key].extend(output.piece.token_ids)
                cached[output.key] = max(cached[output.key], output.piece.num_cached)
            assert violations(snapshot(engine)) == []
    return texts, sum(cached)
