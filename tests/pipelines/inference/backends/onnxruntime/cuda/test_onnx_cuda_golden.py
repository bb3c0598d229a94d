"""Text from the CUDA session in a crowded engine equals text from the CPU session alone, tokens and logprobs.

The whole way but the GPU: feed, buckets, swaps, copies and sampling are the kernels' own, through the shim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from breadth import after
from engine_invariants import snapshot, violations
from host_runtime import BLOCK_TOKENS, open_on_host
from small_onnx_decoders import VOCABULARY, write_small

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.step import Sampled, Step
from pipelines.inference.engine.generation_engine import GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences.policy import EngineSettings
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams

MAX_SEQUENCES, STEP_TOKENS, MAX_SCORED = 5, 28, 6
NUM_BLOCKS, NUM_HOST_BLOCKS = 8, 6


@dataclass
class Crowd:
    """An engine and what each choice of each request has given."""

    session: Any
    num_blocks: int
    num_host_blocks: int = 0
    steps: list[Step] = field(default_factory=list)
    texts: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    logprobs: dict[tuple[int, int], list[Any]] = field(default_factory=dict)
    scores: dict[tuple[int, int], list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = EngineSettings(MAX_SEQUENCES, STEP_TOKENS, True, MAX_SCORED)
        size = CacheSize(self.num_blocks, num_host_blocks=self.num_host_blocks)
        self.engine = GenerationEngine(StepBody(self.body), settings, self.session.shape, size, frozenset())

    def body(self, context: StepContext) -> Sampled:
        self.steps.append(context.step)
        return sample(Logits(self.session.run(context.step), context, self.session.ops))

    def submit(self, number: int, request: tuple[list[int], int, SamplingParams]) -> None:
        prompt, n, params = request
        self.engine.submit(number, GenerationRequest([prompt], params, n))

    def step(self) -> None:
        for output in self.engine.step():
            assert output.error is None
            choice = output.key, output.choice
            self.texts.setdefault(choice, []).extend(output.piece.token_ids)
            logprobs = output.piece.logprobs
            self.logprobs.setdefault(choice, []).extend([] if logprobs is None else logprobs.tokens)
            self.scores.setdefault(choice, []).extend(logprobs.prompt or [] if logprobs is not None else [])
        assert violations(snapshot(self.engine)) == []

    def finish(self) -> None:
        while self.engine.has_work:
            self.step()


def requests(seed: int) -> list[tuple[list[int], int, SamplingParams]]:
    """Prompts of which some begin alike, choices that share one, every kind of sampling."""
    random = np.random.default_rng(seed)
    beginning = random.integers(0, VOCABULARY, 2 * BLOCK_TOKENS).tolist()
    kinds = (
        {"temperature": 0.0, "logprobs": 2, "prompt_logprobs": 3},
        {"temperature": 0.8, "top_k": 12, "seed": 11, "logprobs": 5, "logprob_token_ids": [7, 3, 90]},
        {"temperature": 1.0, "top_p": 0.8, "repetition_penalty": 1.2, "logprobs": 1, "seed": 5},
        {"temperature": 1.2, "min_p": 0.05, "presence_penalty": 0.7, "frequency_penalty": 0.3, "seed": 9}
        | {"top_p": 0.9, "temp_scaled_logprobs": True, "top_p_normalized_logprobs": True, "logprobs": 2},
        {
            "temperature": 0.0,
            "logit_bias": {3: 2.5, 7: -4.0},
            "bad_words_ids": [[5], [8, 9]],
            "prompt_logprobs": 70,
        },
    )
    return [
        (
            (beginning if number % 2 else []) + random.integers(0, VOCABULARY, 3 + 5 * number).tolist(),
            1 + (number % 3 == 1),
            SamplingParams(max_tokens=14 + 4 * number, ignore_eos=True, **kind),
        )
        for number, kind in enumerate(kinds)
    ]


def alone(folder: Path, wanted: list[tuple[list[int], int, SamplingParams]]) -> Crowd:
    """Every request by itself, on the CPU session with sampling in numpy."""
    session = OnnxCpuSession(write_small(folder, rotary=True), OnnxCpuSettings(1, BLOCK_TOKENS))
    session.allocate(64)
    crowd = Crowd(session, 64)
    for number, request in enumerate(wanted):
        crowd.submit(number, request)
        crowd.finish()
    session.close()
    return crowd


@pytest.mark.parametrize(("seed", "gathers"), after(1, [(2, True), (1, False)]))
def test_text_in_a_crowd_equals_text_alone(tmp_path, seed, gathers):
    wanted = requests(seed)
    session, runtime, _ = open_on_host(
        tmp_path,
        num_blocks=NUM_BLOCKS,
        num_host_blocks=NUM_HOST_BLOCKS,
        max_sequences=MAX_SEQUENCES,
        max_scored=MAX_SCORED,
        gathers=gathers,
    )
    crowd, single = Crowd(session, NUM_BLOCKS, NUM_HOST_BLOCKS), alone(tmp_path, wanted)
    for number, request in enumerate(wanted):
        crowd.submit(number, request)
        crowd.step()
        crowd.step()
    crowd.finish()
    assert crowd.texts == single.texts
    check_logprobs(crowd, single)
    check_it_was_crowded(crowd, runtime.graph_ids)
    session.close()


def check_logprobs(crowd: Crowd, single: Crowd) -> None:
    compared = {"logprobs": 0, "scores": 0}
    for name in compared:
        for choice, expected in getattr(single, name).items():
            for ours, theirs in zip(getattr(crowd, name)[choice], expected, strict=True):
                assert (ours.rank, ours.top_ids) == (theirs.rank, theirs.top_ids)
                np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=1e-5)
                np.testing.assert_allclose(ours.top_logprobs, theirs.top_logprobs, atol=1e-5)
                compared[name] += 1
    assert compared["logprobs"] > 20
    assert compared["scores"] > 20
    assert any(step.num_scored > 0 and step.num_sampled for step in crowd.steps)


def check_it_was_crowded(crowd: Crowd, graph_ids: list[int]) -> None:
    """Preempted to the host and back, shared and copied, chunked, replayed: else nothing was shown."""
    counts = crowd.engine.counts()
    assert counts.swapped_in_blocks > 0
    assert counts.prefix_hit_tokens > 0
    assert any(len(step.copies) for step in crowd.steps)
    assert any(step.num_logits == 0 or step.num_tokens > step.num_seqs for step in crowd.steps)
    assert sum(graph_id > 0 for graph_id in graph_ids) > 10
    assert crowd.session.describe()["graphs"] != "0"
