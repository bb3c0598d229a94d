"""A batch of a base model and three of its adapters says for each sequence what PEFT says for it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from breadth import after
from engine_invariants import snapshot, violations
from recorded_adapters import FAMILY, FOLDER, NUM_TOKENS, Case, recorded_cases

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.host.backends.decoder_contract import DecoderSession
from pipelines.host.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings
from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.step import Sampled
from pipelines.host.engine.step_context import Logits, StepContext
from pipelines.host.sampling.stages import sample
from pipelines.nodes.generation.body.lookup import Lookup
from pipelines.wire.sampling_params import SamplingParams

pytestmark = pytest.mark.slow

NUM_BLOCKS = 40
TARGETS = adapter_targets(adapter_folders(FOLDER))
KINDS = ["openvino_model.xml", "model.onnx", "model.onnx by onnxruntime"]


@pytest.fixture(scope="module", params=after(1, KINDS))
def session(request, exported, exported_onnx) -> DecoderSession:
    if request.param.endswith("onnxruntime"):
        return OnnxCpuSession(exported_onnx(FAMILY), OnnxCpuSettings(targets=TARGETS))
    is_onnx = request.param == "model.onnx"
    path: Path = exported_onnx(FAMILY) if is_onnx else exported(FAMILY)[1] / "openvino_model.xml"
    return OpenVINOSession(path, OpenVINOSettings(precision="f32", kv_cache="f32", targets=TARGETS))


@pytest.fixture(scope="module")
def engines(session) -> Callable[[bool], GenerationEngine]:
    """`engines(speculates)` → an engine over the session's only cache, with the adapters 1, 2 and 3."""
    session.reserve(64, 8)
    session.allocate(NUM_BLOCKS)
    lookup = Lookup(Lookup.Config(adaptive=False), Path())

    def make(speculates: bool) -> GenerationEngine:
        def body(context: StepContext) -> Sampled:
            context = lookup.run(context) if speculates else context
            return sample(Logits(session.run(context.step), context))

        settings = EngineSettings(
            max_sequences=8, max_step_tokens=24, num_draft_tokens=4 if speculates else 0
        )
        limits = session.block_tokens, session.vocab_size, session.max_context
        engine = GenerationEngine(body, settings, NUM_BLOCKS, *limits, frozenset(), adapters=session)
        for number, folder in enumerate(adapter_folders(FOLDER), 1):
            engine.put_adapter(number, read_adapter(folder, engine.products, max_rank=8))
        return engine

    return make


def generate(engine: GenerationEngine, cases: list[Case]) -> list[list[int]]:
    """What each case says; they join one after another, and now and then the youngest is preempted."""
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    texts: list[list[int]] = [[] for _ in cases]
    waiting, numbers = list(enumerate(cases)), {None: 0, "a": 1, "b": 2, "c": 3}
    while waiting or engine.has_work:
        if waiting:
            place, case = waiting.pop(0)
            request = GenerationRequest([case.prompt], params, adapter=numbers[case.adapter])
            engine.submit(place, request)
        elif engine.scheduler.running and engine.counts().steps % 7 == 6:
            engine.scheduler._preempt(engine.scheduler.running[-1])
        for output in engine.step():
            texts[output.key].extend(output.piece.token_ids)
        assert violations(snapshot(engine)) == []
    return texts


@pytest.mark.parametrize("speculates", [False, True], ids=["plain", "lookups"])
def test_tokens_equal_pefts_in_chunks_after_preemption_and_with_lookups(engines, speculates):
    engine, cases = engines(speculates), recorded_cases()
    assert generate(engine, cases) == [case.tokens for case in cases]
    counts = engine.counts()
    assert counts.preemptions >= 2
    assert (counts.draft_tokens > 5) == speculates


def test_one_prompt_has_other_tokens_and_blocks_with_each_adapter(engines):
    engine, prompt = engines(False), recorded_cases()[0].prompt * 2
    own = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens == 0
    again = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens >= 3 * (len(prompt) // engine.limits.block_tokens - 1)
    assert own == again
    assert len({tuple(text) for text in own}) == 3


def test_an_adapter_that_left_is_refused_and_another_may_have_its_place(engines):
    engine, case = engines(False), recorded_cases()[1]
    engine.drop_adapter(1)
    with pytest.raises(Exception, match="adapter 1 is not loaded"):
        generate(engine, [case])
    engine.put_adapter(1, read_adapter(FOLDER / "b", engine.products, max_rank=8))
    assert generate(engine, [case]) != [case.tokens]
    engine.drop_adapter(1)
    engine.put_adapter(1, read_adapter(FOLDER / "a", engine.products, max_rank=8))
