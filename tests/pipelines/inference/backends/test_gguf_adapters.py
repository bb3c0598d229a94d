"""Adapters of a GGUF file, whose rows of queries and keys lie in another order: logits equal those of
transformers on dequantized weights into which the adapter is merged.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import LAYERS, write_llama_like
from later import Later
from lone_steps import step
from test_gguf_logits import FAMILIES, KERNEL_TOLERANCE, NUM_IDS, SIZES, TOLERANCE, expected, ids

from pipelines.adapters.linear_names import ENDS
from pipelines.adapters.weights import AdapterWeights, LoraFactors
from pipelines.gguf.convert import FLOAT_SUMS, IN_FILE, convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

hf = Later("transformers")

RANK = 3
TARGETS = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "down_proj", *ENDS})
ENGINES = {
    "openvino": lambda path: OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1, TARGETS)),
    "onnxruntime": lambda path: OnnxCpuSession(path, OnnxCpuSettings(targets=TARGETS)),
}


def logits(session, adapter):
    """Those of every token of the prompt."""
    blocks = list(range(-(-NUM_IDS // session.shape.block_tokens)))
    alone = step(ids(), 0, blocks, list(range(NUM_IDS)))
    return session.run(replace(alone, adapters=np.array([adapter], np.int32))).copy()


def module_of(linear):
    """Its name in the checkpoint."""
    return linear if linear == "lm_head" else f"model.{linear}"


@pytest.mark.parametrize(
    ("kind", "engine"),
    after(2, [("F32", "onnxruntime"), ("Q4_1", "openvino"), ("F32", "openvino"), ("Q4_1", "onnxruntime")]),
)
def test_adapters_change_a_gguf_file_as_they_change_its_checkpoint(tmp_path, kind, engine):
    check_adapters(ENGINES[engine], kind, tmp_path, 5 * TOLERANCE)


def test_adapters_change_linear_layers_of_the_kernels(tmp_path, kernels):
    settings = OpenVINOSettings("cpu", "f32", "f32", 1, TARGETS, kernels=kernels(2))
    open_session = partial(OpenVINOSession, settings=settings)
    for number, form in enumerate((FLOAT_SUMS, IN_FILE)):
        (folder := tmp_path / str(number)).mkdir()
        check_adapters(open_session, "Q4_1", folder, 5 * KERNEL_TOLERANCE, form)


def test_adapters_change_attention_and_the_shared_experts_of_a_mixture(tmp_path, kernels):
    """By the kernels, beside the routed experts, which no adapter changes."""
    settings = OpenVINOSettings("cpu", "f32", "f32", 1, TARGETS, kernels=kernels(2))
    open_session = partial(OpenVINOSession, settings=settings)
    linears = check_adapters(open_session, "Q8_0", tmp_path, 5 * KERNEL_TOLERANCE, IN_FILE, "qwen2moe")
    assert {f"layers.{layer}.mlp.shared_expert.down_proj" for layer in range(LAYERS)} < linears
    assert not any(".experts." in name for name in linears)


def check_adapters(open_session, kind, tmp_path, tolerance, form=FLOAT_SUMS, family=None):
    """The linear layers that adapters change; `family` is one of those of `test_gguf_logits`."""
    config, written = FAMILIES[family] if family else (lambda: hf.LlamaConfig(**SIZES), {})
    state = write_llama_like(tmp_path / "tiny.gguf", kind=Type[kind], **written)
    convert(tmp_path / "tiny.gguf", tmp_path / "model", form)
    session = open_session(tmp_path / "model" / "model.onnx")
    assert {linear.rpartition(".")[2] for linear in session.linears} == TARGETS
    session.reserve(NUM_IDS, 1)
    session.allocate(8)
    rng, linears, merged = np.random.default_rng(0), {}, dict(state)
    for linear, shape in session.linears.items():
        a, b = rng.normal(0, 0.1, (RANK, shape.size_in)), rng.normal(0, 0.1, (shape.size_out, RANK))
        linears[linear] = LoraFactors(a.astype(np.float32), b.astype(np.float32))
        more = (b @ a).astype(np.float32)
        merged[f"{module_of(linear)}.weight"] = state[f"{module_of(linear)}.weight"] + (
            more.T if linear == "embed_tokens" else more
        )
    session.put_adapter(1, AdapterWeights(RANK, linears))
    for adapter, weights in ((0, state), (1, merged), (0, state)):
        wanted = expected(config(), weights)
        np.testing.assert_allclose(logits(session, adapter), wanted, atol=tolerance, rtol=0)
    session.close()
    return set(linears)
