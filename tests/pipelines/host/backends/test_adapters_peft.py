"""A batch of a base model and three of its adapters says for each sequence what PEFT says for it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from adapter_batches import Case, allocated, engine_of, generate
from host_runtime import open_with_adapters
from recorded_adapters import FAMILY, FOLDER, recorded_cases

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.host.backends.decoder_contract import DecoderSession
from pipelines.host.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings

pytestmark = [pytest.mark.slow, pytest.mark.breadth]

TARGETS = adapter_targets(adapter_folders(FOLDER))
SESSIONS = ["openvino_model.xml", "model.onnx", "model.onnx by onnxruntime", "model.onnx as on cuda"]


@pytest.fixture(scope="module", params=SESSIONS)
def session(request, exported, exported_onnx) -> DecoderSession:
    if request.param.endswith("cuda"):
        return allocated(open_with_adapters(exported_onnx(FAMILY), TARGETS)[0])
    if request.param.endswith("onnxruntime"):
        return allocated(OnnxCpuSession(exported_onnx(FAMILY), OnnxCpuSettings(targets=TARGETS)))
    is_onnx = request.param == "model.onnx"
    path: Path = exported_onnx(FAMILY) if is_onnx else exported(FAMILY)[1] / "openvino_model.xml"
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", targets=TARGETS)
    return allocated(OpenVINOSession(path, settings))


@pytest.fixture
def adapters(session):
    return {each.name: read_adapter(each, session.products, max_rank=8) for each in adapter_folders(FOLDER)}


@pytest.mark.parametrize("speculates", [False, True], ids=["plain", "lookups"])
def test_tokens_equal_pefts_in_chunks_after_preemption_and_with_lookups(session, adapters, speculates):
    engine, cases = engine_of(session, adapters, speculates), recorded_cases()
    assert generate(engine, cases) == [case.tokens for case in cases]
    counts = engine.counts()
    assert counts.preemptions >= 2
    assert (counts.draft_tokens > 5) == speculates


def test_one_prompt_has_other_tokens_and_blocks_with_each_adapter(session, adapters):
    engine, prompt = engine_of(session, adapters), recorded_cases()[0].prompt * 2
    own = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens == 0
    again = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens >= 3 * (len(prompt) // engine.limits.block_tokens - 1)
    assert own == again
    assert len({tuple(text) for text in own}) == 3
