"""A mixed, chunked, prefix-sharing batch gives the tokens that transformers gives each prompt alone."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tiny_decoders import FAMILIES, VOCABULARY, generate_alone

from pipelines.backends.openvino.session import OpenVINOSession, OpenVINOSettings
from pipelines.engine.feed import Sampled, Step
from pipelines.engine.loop import Engine, EngineSettings
from pipelines.sampling.params import SamplingParams

pytestmark = pytest.mark.slow

NUM_TOKENS = 20
CHUNK_TOKENS = 40
EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")


def prompts() -> list[list[int]]:
    """Shorter than a block, longer than a chunk, at the edge of a block, and two that share 64 tokens."""
    rng = np.random.default_rng(3)
    alone = [rng.integers(3, VOCABULARY, size=size).tolist() for size in (5, 90, 33, 64)]
    return [*alone, alone[1][:70] + alone[0], alone[3] + alone[2]]


def greedy_engine(session: OpenVINOSession, num_blocks: int) -> Engine:
    def body(step: Step) -> Sampled:
        return Sampled(session.run(step).argmax(axis=1), [])

    session.allocate(num_blocks)
    settings = EngineSettings(max_sequences=8, max_step_tokens=CHUNK_TOKENS, reuse_prefixes=True)
    return Engine(
        body, settings, num_blocks, session.block_tokens, session.vocab_size, session.max_context, frozenset()
    )


def generate_together(engine: Engine, prompts: list[list[int]]) -> tuple[list[list[int]], int]:
    """The tokens of each prompt and how many prompt tokens the prefix cache gave; prompts join mid-way."""
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    texts: list[list[int]] = [[] for _ in prompts]
    cached = [0 for _ in prompts]
    waiting = list(enumerate(prompts))
    while waiting or engine.has_work:
        if waiting:
            number, prompt = waiting.pop(0)
            engine.submit(number, [prompt], params)
        for _ in range(3):
            for output in engine.step():
                texts[output.key].extend(output.token_ids)
                cached[output.key] = max(cached[output.key], output.num_cached)
    return texts, sum(cached)


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_equal_transformers(family, exported):
    source, folder = exported(family)
    asked = prompts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = generate_alone(source, asked, NUM_TOKENS)
    session = OpenVINOSession(folder / "openvino_model.xml", EXACT)
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), asked)
    assert texts == expected
    assert num_cached >= 64
    assert all(len(set(text)) > 3 for text in texts), "degenerate text proves nothing"
