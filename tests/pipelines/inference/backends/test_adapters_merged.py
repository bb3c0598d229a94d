"""A batch of a base model and three adapters says for each sequence what a model says whose weights are
merged.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adapter_batches import NUM_TOKENS, Case, allocated, engine_of, generate
from breadth import after
from host_runtime import open_with_adapters
from small_adapters import ALL, LAST, RANKS, made_for, write
from small_onnx_decoders import VOCABULARY

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.decoder_contract import DecoderSession


def openvino(path: Path, targets: frozenset[str] | None = None) -> DecoderSession:
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", targets=targets)
    return allocated(OpenVINOSession(path, settings))


def onnxruntime(path: Path, targets: frozenset[str] | None = None) -> DecoderSession:
    return allocated(OnnxCpuSession(path, OnnxCpuSettings(threads=1, targets=targets)))


def cuda(path: Path, targets: frozenset[str] | None = None) -> DecoderSession:
    return allocated(open_with_adapters(path, targets)[0])


MIXTURE = {"experts": 5, "used": 2}


@pytest.mark.parametrize("opened", after(1, [onnxruntime, openvino]))
def test_a_mixed_batch_on_a_mixture_says_what_merged_models_say_alone(tmp_path, opened):
    says_what_merged_models_say(tmp_path, opened, MIXTURE)


@pytest.mark.parametrize("opened", after(2, [openvino, cuda, onnxruntime]))
def test_a_mixed_batch_says_what_merged_models_say_alone(tmp_path, opened):
    says_what_merged_models_say(tmp_path, opened, mixture=None)


def says_what_merged_models_say(tmp_path, opened, mixture):
    """With chunks, preemption and draft tokens."""
    mixed = opened(write(tmp_path / "base", mixture=mixture), ALL)
    assert len(mixed.linears) == 2 * len(LAST)
    adapters = {name: made_for(mixed.linears, name) for name in RANKS}
    rng = np.random.default_rng(2)
    prompts = [rng.integers(0, VOCABULARY, size).tolist() for size in (30, 7, 45)]
    cases = []
    for name in (None, *RANKS):
        path = write(tmp_path / f"merged-{name}", adapters.get(name), mixture=mixture)
        alone = engine_of(opened(path), {})
        own = [Case(None, prompt, []) for prompt in prompts]
        said = generate(alone, own)
        cases += [Case(name, *prompt) for prompt in zip(prompts, said, strict=True)]
    assert len({tuple(case.tokens) for case in cases}) > 2 * len(prompts)
    order = rng.permutation(len(cases)).tolist()
    cases = [cases[place] for place in order]
    for speculates in (False, True):
        engine = engine_of(mixed, adapters, speculates)
        texts = generate(engine, cases)
        assert [len(text) for text in texts] == [NUM_TOKENS] * len(cases)
        assert texts == [case.tokens for case in cases]
        assert engine.counts().preemptions >= 2
