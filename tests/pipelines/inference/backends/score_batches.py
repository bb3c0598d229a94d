"""Scores of prompts from an engine, alone and in a crowd, beside those of a reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from engine_invariants import snapshot, violations
from numpy.typing import NDArray

from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits as StepLogits
from pipelines.inference.sampling.step_context import StepContext
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import SamplingParams

TOP = 3
TOLERANCE = 1e-4
CHUNK_TOKENS, MAX_SCORED, NUM_BLOCKS = 40, 13, 64


def scoring_engine(session: DecoderSession, reuse_prefixes: bool = True) -> GenerationEngine:
    """An engine over `session`, whose cache is allocated here; its steps score few positions."""

    def body(context: StepContext) -> Sampled:
        return sample(StepLogits(session.run(context.step), context, session.ops))

    session.allocate(NUM_BLOCKS)
    settings = EngineSettings(8, CHUNK_TOKENS, reuse_prefixes, MAX_SCORED)
    return GenerationEngine(StepBody(body), settings, session.shape, CacheSize(NUM_BLOCKS), frozenset())


def score_alone(engine: GenerationEngine, prompts: list[list[int]]) -> list[list[TokenLogprobs]]:
    """Each prompt when nothing else runs, and only its scores, as for a completion that is echoed."""
    found = []
    for number, prompt in enumerate(prompts):
        engine.submit(number, GenerationRequest([prompt], SamplingParams(max_tokens=0, prompt_logprobs=TOP)))
        found.append(drain(engine)[number, 0])
    return found


def score_together(engine: GenerationEngine, prompts: list[list[int]]) -> list[list[TokenLogprobs]]:
    """All prompts at once, of two choices each, beside requests that have filled the cache with them."""
    params = SamplingParams(max_tokens=4, temperature=0.0)
    engine.submit("fills", GenerationRequest(prompts, params))
    drain(engine)
    engine.submit("talks", GenerationRequest([prompts[0]], SamplingParams(max_tokens=30, temperature=0.0)))
    for number, prompt in enumerate(prompts):
        params = SamplingParams(max_tokens=2, prompt_logprobs=TOP)
        engine.submit(number, GenerationRequest([prompt], params, n=2))
    scores = drain(engine)
    assert all(scores[number, 0] == scores[number, 1] for number in range(len(prompts)))
    return [scores[number, 0] for number in range(len(prompts))]


def drain(engine: GenerationEngine) -> dict[tuple[object, int], list[TokenLogprobs]]:
    """Run to the end; the scores of each choice of each request."""
    scores: dict[tuple[object, int], list[TokenLogprobs]] = {}
    while engine.has_work:
        for output in engine.step():
            assert output.error is None
            logprobs = output.piece.logprobs
            if logprobs is not None and logprobs.prompt is not None:
                assert (output.key, output.choice) not in scores
                scores[output.key, output.choice] = logprobs.prompt
        assert violations(snapshot(engine)) == []
    return scores


def check(
    texts_scores: list[list[TokenLogprobs]],
    prompts: list[list[int]],
    logprobs_of: Callable[[list[int]], NDArray[np.float32]],
) -> None:
    """`logprobs_of(prompt)`: float32[len(prompt), vocab], the reference's log_softmax at each position."""
    for scores, prompt in zip(texts_scores, prompts, strict=True):
        expected = logprobs_of(prompt)[:-1]
        chosen = np.take_along_axis(expected, np.array(prompt[1:])[:, None], axis=1)[:, 0]
        np.testing.assert_allclose([score.logprob for score in scores], chosen, atol=TOLERANCE)
        best = -np.sort(-expected, axis=1)[:, :TOP]
        np.testing.assert_allclose([score.top_logprobs for score in scores], best, atol=TOLERANCE)
        named = np.take_along_axis(expected, np.array([score.top_ids for score in scores]), axis=1)
        np.testing.assert_allclose(named, best, atol=TOLERANCE)
        likelier = (expected > chosen[:, None] + TOLERANCE).sum(axis=1)
        at_least = (expected > chosen[:, None] - TOLERANCE).sum(axis=1)
        ranks = np.array([score.rank for score in scores])
        assert ((likelier < ranks) & (ranks <= at_least)).all()
