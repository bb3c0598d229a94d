"""Batches of a base model and its adapters: an engine that holds some, and what each sequence says in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from engine_invariants import snapshot, violations

from pipelines.adapters.weights import AdapterWeights
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.lookup import Lookup
from pipelines.wire.sampling_params import SamplingParams

NUM_BLOCKS, NUM_TOKENS = 40, 16
NUMBERS = {None: 0, "a": 1, "b": 2, "c": 3}


class Case(NamedTuple):
    """A prompt, the name of its adapter (None: the base), and the tokens that are right."""

    adapter: str | None
    prompt: list[int]
    tokens: list[int]


def allocated(session: DecoderSession) -> DecoderSession:
    session.reserve(64, 8)
    session.allocate(NUM_BLOCKS)
    return session


def engine_of(
    session: DecoderSession, adapters: Mapping[str, AdapterWeights], speculates: bool = False
) -> GenerationEngine:
    """An engine over the session's cache that holds these adapters, with steps of few tokens."""
    lookup = Lookup(Lookup.Config(adaptive=False), Path())

    def body(context: StepContext) -> Sampled:
        context = lookup.run(context) if speculates else context
        return sample(Logits(session.run(context.step), context))

    settings = EngineSettings(max_sequences=8, max_step_tokens=24, num_draft_tokens=4 * speculates)
    engine = GenerationEngine(
        StepBody(body, adapters=session), settings, session.shape, CacheSize(NUM_BLOCKS), frozenset()
    )
    for name, weights in adapters.items():
        engine.put_adapter(NUMBERS[name], weights)
    return engine


def generate(engine: GenerationEngine, cases: list[Case]) -> list[list[int]]:
    """What each case says; they join one after another, and now and then the youngest is preempted."""
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    texts: list[list[int]] = [[] for _ in cases]
    waiting = list(enumerate(cases))
    while waiting or engine.has_work:
        if waiting:
            place, case = waiting.pop(0)
            request = GenerationRequest([case.prompt], params, adapter=NUMBERS[case.adapter])
            engine.submit(place, request)
        elif engine.scheduler.running and engine.counts().steps % 7 == 6:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            texts[output.key].extend(output.piece.token_ids)
        assert violations(snapshot(engine)) == []
    return texts
