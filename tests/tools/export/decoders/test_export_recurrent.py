"""Hybrid decoders that `braid export` writes in Braid's form give transformers' logits, in mixed steps of prompts
of several lengths.
"""

from __future__ import annotations

import importlib.util
import shutil

import numpy as np
import pytest
from breadth import after
from hf_folders import write_decoder
from test_export_onnx import expected_logits

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.onnx_format.recurrent_format import DELTA_NET, KINDS, MAMBA2, SHORT_CONV
from tools.export.base.folder import ExportError
from tools.export.decoders.decoder import export_decoder
from tools.paged_steps import Prompt, prompt_logits

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]

LAYERS = {"num_hidden_layers": 3, "num_key_value_heads": 1, "pad_token_id": 0, "initializer_range": 0.2}
NET = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "partial_rotary_factor": 0.5,
}
MIXTURE = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
SSM = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_expand": 2}
CONVS = {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False}
NEMOTRON = {
    "layers_block_type": ["mamba", "attention", "mlp", "mamba", "moe"],
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
    "head_dim": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
}
FAMILIES = {
    "lfm2": (CONVS, {SHORT_CONV: 2}),
    "qwen3_next": (NET | MIXTURE, {SHORT_CONV: 2, DELTA_NET: 2}),
    "falcon_h1": (SSM | {"mamba_d_ssm": 128, "head_dim": 32}, {SHORT_CONV: 3, MAMBA2: 3}),
    "lfm2_moe": (
        CONVS
        | {"num_experts": 4, "num_experts_per_tok": 2, "num_dense_layers": 1, "moe_intermediate_size": 32},
        {SHORT_CONV: 2},
    ),
    "qwen3_5_text": (NET, {SHORT_CONV: 2, DELTA_NET: 2}),
    "qwen3_5_moe_text": (NET | MIXTURE, {SHORT_CONV: 2, DELTA_NET: 2}),
    "granitemoehybrid": (
        SSM
        | {"layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 4, "num_experts_per_tok": 2}
        | {"shared_intermediate_size": 32},
        {SHORT_CONV: 2, MAMBA2: 2},
    ),
    "bamba": (SSM | {"attn_layer_indices": [1], "partial_rotary_factor": 0.5}, {SHORT_CONV: 2, MAMBA2: 2}),
    "nemotron_h": (NEMOTRON, {SHORT_CONV: 2, MAMBA2: 2}),
    "zamba2": (
        {"layers_block_type": ["mamba", "hybrid", "mamba"], "n_mamba_heads": 8, "mamba_ngroups": 2},
        {SHORT_CONV: 3, MAMBA2: 3},
    ),
    "minimax": (
        {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "head_dim": 32}
        | {"num_local_experts": 4, "num_experts_per_tok": 2},
        {MAMBA2: 2},
    ),
    "olmo_hybrid": (NET | {"linear_allow_neg_eigval": True}, {SHORT_CONV: 2, DELTA_NET: 2}),
    "jamba": (
        {"attn_layer_period": 3, "attn_layer_offset": 1, "use_mamba_kernels": False, "num_experts": 2},
        {SHORT_CONV: 2, MAMBA2: 2},
    ),
    "recurrent_gemma": (
        {"attention_window_size": 24, "head_dim": 32, "block_types": ["recurrent", "recurrent", "attention"]},
        {SHORT_CONV: 2, MAMBA2: 2},
    ),
}
NEWER = (
    "lfm2_moe",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "nemotron_h",
    "olmo_hybrid",
    "jamba",
    "recurrent_gemma",
)
"""Families that transformers 5 alone exports."""


def kinds_of(path):
    import onnx

    nodes = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
    return {kind: nodes.count(kind) for kind in KINDS if kind in nodes}


def export(folder, family):
    from transformers import __version__

    if family in NEWER and int(__version__.split(".")[0]) < 5:
        pytest.skip("transformers 4 does not have it, or computes its attention in its own way")
    config, nodes = FAMILIES[family]
    sizes = {name: each for name, each in LAYERS.items() if not (family == "nemotron_h" and "layers" in name)}
    write_decoder(folder / "source", family, **sizes, **config)
    export_decoder(str(folder / "source"), folder / "model", form="onnx")
    assert kinds_of(folder / "model" / "model.onnx") == nodes


PROMPTS = [
    Prompt(row[:end], np.arange(end))
    for row, end in zip(np.random.default_rng(3).integers(5, 256, (3, 60)), (60, 7, 33), strict=True)
]


def logits_of(open_session, folder):
    session = open_session(folder / "model.onnx")
    try:
        return np.concatenate(prompt_logits(session, PROMPTS, 16))
    finally:
        session.close()


def exact(path):
    return OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1))


def dequantize(source, target):
    """The same model with linear layers of the numbers that its codes stand for."""
    import onnx
    from onnx import helper, numpy_helper

    shutil.copytree(source, target)
    model = onnx.load(source / "model.onnx")
    stored = {initializer.name: numpy_helper.to_array(initializer) for initializer in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "MatMulNBits"]:
        sizes = {attribute.name: attribute.i for attribute in node.attribute}
        codes = stored[node.input[1]]
        if sizes["bits"] == 4:
            codes = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:2], -1)
        blocks = (codes.astype(np.float32) - 2 ** (sizes["bits"] - 1)) * stored[node.input[2]].reshape(
            *codes.shape[:2], 1
        )
        weight = blocks.reshape(sizes["N"], -1)[:, : sizes["K"]].T
        model.graph.initializer.append(numpy_helper.from_array(weight.copy(), f"{node.input[1]}.floats"))
        node.CopyFrom(helper.make_node("MatMul", [node.input[0], f"{node.input[1]}.floats"], node.output))
    onnx.save(model, target / "model.onnx")
    return target


@pytest.mark.parametrize(
    ("family", "weights"),
    after(
        1,
        [(family, weights) for family in ("lfm2", "falcon_h1", "qwen3_next") for weights in ("int8", "int4")],
    ),
)
def test_few_bits_are_the_numbers_that_they_stand_for(tmp_path, family, weights):
    config, _ = FAMILIES[family]
    write_decoder(tmp_path / "source", family, **LAYERS, **config)
    export_decoder(str(tmp_path / "source"), tmp_path / "model", weights, form="onnx")
    expected = logits_of(exact, dequantize(tmp_path / "model", tmp_path / "floats"))
    np.testing.assert_allclose(logits_of(exact, tmp_path / "model"), expected, atol=1e-3 * expected.std())
    rounded = logits_of(OnnxCpuSession, tmp_path / "model")  # it multiplies in int8
    assert 0 < np.abs(rounded - expected).mean() < 0.03 * expected.std()


@pytest.mark.parametrize("family", after(1, FAMILIES))
def test_logits_are_those_of_transformers(tmp_path, family):
    export(tmp_path, family)
    session = exact(tmp_path / "model" / "model.onnx")
    try:
        given = prompt_logits(session, PROMPTS, 16)
    finally:
        session.close()
    for prompt, logits in zip(PROMPTS, given, strict=True):
        wanted = expected_logits(tmp_path / "source", prompt.ids.tolist())
        np.testing.assert_allclose(logits, wanted, atol=2e-4 * max(1, abs(wanted).max()))


def test_models_of_recurrent_layers_alone_are_refused(tmp_path):
    write_decoder(tmp_path / "source", "mamba2", num_heads=4, head_dim=32, state_size=16, n_groups=1)
    with pytest.raises(ExportError, match="recurrent layers alone"):
        export_decoder(str(tmp_path / "source"), tmp_path / "model", form="onnx")
