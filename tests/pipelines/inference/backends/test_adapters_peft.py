"""A batch of a base model and three of its adapters says for each sequence what PEFT says for it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from adapter_batches import Case, allocated, engine_of, generate
from host_runtime import open_with_adapters
from recorded_adapters import FAMILIES, ROOT, recorded_cases

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.decoder_contract import DecoderSession

pytestmark = [pytest.mark.slow, pytest.mark.breadth]

SESSIONS = ["openvino_model.xml", "model.onnx", "model.onnx by onnxruntime", "model.onnx as on cuda"]


@pytest.fixture(scope="module", params=FAMILIES)
def recording(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=SESSIONS)
def session(request, recording, exported, exported_onnx) -> DecoderSession:
    family, targets = FAMILIES[recording], adapter_targets(adapter_folders(ROOT / recording))
    if request.param.endswith("cuda"):
        if recording.endswith("ends"):
            pytest.skip("on CUDA embeddings and head are the base's")
        return allocated(open_with_adapters(exported_onnx(family), targets)[0])
    if request.param.endswith("onnxruntime"):
        return allocated(OnnxCpuSession(exported_onnx(family), OnnxCpuSettings(targets=targets)))
    is_onnx = request.param == "model.onnx"
    path: Path = exported_onnx(family) if is_onnx else exported(family)[1] / "openvino_model.xml"
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", targets=targets)
    return allocated(OpenVINOSession(path, settings))


@pytest.fixture
def adapters(session, recording):
    folders = adapter_folders(ROOT / recording)
    return {each.name: read_adapter(each, session.linears, max_rank=8) for each in folders}


@pytest.mark.parametrize("speculates", [False, True], ids=["plain", "lookups"])
def test_tokens_equal_pefts_in_chunks_after_preemption_and_with_lookups(
    session, recording, adapters, speculates
):
    engine, cases = engine_of(session, adapters, speculates), recorded_cases(recording)
    assert generate(engine, cases) == [case.tokens for case in cases]
    counts = engine.counts()
    assert counts.preemptions >= 2
    assert (counts.draft_tokens > 5) == speculates


def test_one_prompt_has_other_tokens_and_blocks_with_each_adapter(session, recording, adapters):
    engine, prompt = engine_of(session, adapters), recorded_cases(recording)[0].prompt * 2
    own = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens == 0
    again = [generate(engine, [Case(name, prompt, [])])[0] for name in (None, "a", "b")]
    assert engine.counts().prefix_hit_tokens >= 3 * (len(prompt) // engine.limits.model.block_tokens - 1)
    assert own == again
    assert len({tuple(text) for text in own}) == 3
