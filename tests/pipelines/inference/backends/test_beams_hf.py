"""Beam search in a mixed, chunked, preempted batch finds what transformers finds for each prompt alone."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from engine_invariants import snapshot, violations
from tiny_decoders import VOCABULARY, prompts

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import Beams, SamplingParams

pytestmark = pytest.mark.slow

FAMILY = "mistral"
EOS = frozenset(range(0, VOCABULARY, 16))
STOP = [7, 40, 99]


class Search(NamedTuple):
    """A request for beam search; `ends` says whether end tokens count."""

    beams: Beams
    n: int = 1
    max_tokens: int = 16
    ends: bool = True


SEARCHES = [
    Search(Beams(1), ends=False),
    Search(Beams(2), 2, ends=False),
    Search(Beams(4), 4, ends=False),
    Search(Beams(3), 3, max_tokens=1),
    Search(Beams(2), 2),
    Search(Beams(3), 1),
    Search(Beams(3, early_stopping=True), 3),
    Search(Beams(3, early_stopping="never"), 3),
    Search(Beams(4, length_penalty=0.0), 2),
    Search(Beams(4, length_penalty=2.5), 4),
    Search(Beams(4, length_penalty=2.5, early_stopping="never"), 4),
    Search(Beams(4, length_penalty=-1.0), 4),
    Search(Beams(4, length_penalty=-1.0, early_stopping=True), 4),
    Search(Beams(6), 6, max_tokens=24),
]


def cases() -> list[tuple[list[int], Search]]:
    """The searches over prompts of all lengths."""
    return list(zip(cycle(prompts()), SEARCHES))


@pytest.fixture(scope="module")
def engine(exported_onnx: Any) -> Any:
    """With fewer blocks than its sequences would like."""
    session = OnnxCpuSession(exported_onnx(FAMILY), OnnxCpuSettings(threads=1, block_tokens=8))

    def body(context: StepContext) -> Sampled:
        return sample(Logits(session.run(context.step), context))

    session.allocate(100)
    settings = EngineSettings(max_sequences=10, max_step_tokens=40, reuse_prefixes=True)
    yield GenerationEngine(StepBody(body), settings, session.shape, CacheSize(100), EOS)
    session.close()


def search_together(engine: GenerationEngine) -> dict[tuple[int, int], tuple[list[int], str | None]]:
    """What each choice of each case gets; requests join one by one, and now and then a sequence is set
    back.
    """
    replies: dict[tuple[int, int], tuple[list[int], str | None]] = {}
    arriving = list(enumerate(cases()))
    while arriving or engine.has_work:
        if arriving:
            key, (prompt, asked) = arriving.pop(0)
            params = SamplingParams(
                max_tokens=asked.max_tokens,
                beams=asked.beams,
                ignore_eos=not asked.ends,
                stop_token_ids=STOP if asked.ends else [],
            )
            engine.submit(key, GenerationRequest([prompt], params, asked.n))
        if engine.scheduler.running and engine.counts().steps % 4 == 0:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            assert output.error is None
            assert (output.key, output.choice) not in replies
            replies[output.key, output.choice] = output.piece.token_ids, output.piece.finish
        assert violations(snapshot(engine)) == []
    return replies


def search_alone(folder: Path) -> dict[tuple[int, int], tuple[list[int], str | None]]:
    """The same from transformers in float32, one case after the other."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)  # for a model so small more threads only wait for each other
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    replies: dict[tuple[int, int], tuple[list[int], str | None]] = {}
    for key, (prompt, asked) in enumerate(cases()):
        ends = sorted(EOS.union(STOP)) if asked.ends else []
        rows = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones((1, len(prompt)), dtype=torch.long),
            num_beams=asked.beams.width,
            num_return_sequences=asked.n,
            length_penalty=asked.beams.length_penalty,
            early_stopping=asked.beams.early_stopping,
            max_new_tokens=asked.max_tokens,
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=VOCABULARY - 1,
        )
        for choice, row in enumerate(rows.tolist()):
            replies[key, choice] = cut(row[len(prompt) :], ends, asked.max_tokens)
    return replies


def cut(row: list[int], ends: list[int], max_tokens: int) -> tuple[list[int], str]:
    """The tokens up to the first end token, behind which transformers pads."""
    at = next((place for place, token in enumerate(row) if token in ends), None)
    assert at is not None or len(row) == max_tokens
    return (row, "length") if at is None else (row[: at + 1], "stop")


@pytest.mark.breadth
def test_hypotheses_equal_those_of_transformers(engine, source):
    found, want = search_together(engine), search_alone(source(FAMILY))
    assert found == want
    finishes = [finish for _, finish in found.values()]
    assert min(finishes.count("stop"), finishes.count("length")) > 8
    assert len({tuple(ids) for ids, _ in found.values()}) > 30
    counts = engine.counts()
    assert (counts.blocks_used, counts.preemptions > 5, counts.prefix_hit_tokens > 100) == (0, True, True)
