"""Between rotary embeddings and attention nothing is transposed, and the logits stay what they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import CONTEXT, HEAD_SIZE, LAYERS, gate_in_up, write_llama_like
from lone_steps import step

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.openvino.decoder import from_onnx
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

IDS = np.random.default_rng(5).integers(5, 100, 40)


def half_turned(model):
    model.writer.add_rope_dimension_count(HEAD_SIZE // 2)


FAMILIES = {
    "smollm3": ({"architecture": "smollm3", "layers": 4}, 2 * 3, 0),  # the last of four layers turns nothing
    "phi3": ({"architecture": "phi3", "fused": True, "feed": gate_in_up, "more": half_turned}, 0, 4 * LAYERS),
    "llama": ({}, 2 * LAYERS, 0),
    "qwen3": ({"architecture": "qwen3", "norms": True}, 2 * LAYERS, 0),
}
"""What is written, how many rotary embeddings are one operator, and how many transposes stay: those around
embeddings that turn a part of each head, which OpenVINO knows in its own order alone."""


def operators(session):
    ops = session._compiled.get_runtime_model().get_ops()
    return Counter(node.get_rt_info()["layerType"].value for node in ops)


def logits(session):
    session.reserve(len(IDS), 2)
    session.allocate(CONTEXT // session.shape.block_tokens)
    first = session.run(step(IDS[:23], 0, [0, 1], range(23))).copy()
    rest = [session.run(step(IDS[at : at + 1], at, [0, 1], [0])).copy() for at in range(23, len(IDS))]
    return np.concatenate([first, *rest])


def compared(path, monkeypatch):
    """The operators with transposes and without, of sessions with the same logits."""
    settings = OpenVINOSettings("cpu", "f32", "f32", 1)
    ordered = OpenVINOSession(path, settings)
    monkeypatch.setattr(from_onnx, "_skip_transposes", lambda model: None)
    turned = OpenVINOSession(path, settings)
    np.testing.assert_array_equal(logits(ordered), logits(turned))
    return operators(turned), operators(ordered)


@pytest.mark.parametrize("family", after(2, FAMILIES))
def test_nothing_is_transposed_and_the_logits_are_the_same(tmp_path, monkeypatch, family):
    written, num_rotary, num_transposes = FAMILIES[family]
    write_llama_like(tmp_path / "tiny.gguf", kind=Type.Q8_0, **written)
    convert(tmp_path / "tiny.gguf", tmp_path / "model", FLOAT_SUMS)
    with_turns, without = compared(tmp_path / "model" / "model.onnx", monkeypatch)
    assert with_turns["Transpose"] >= 2 * LAYERS
    assert without["Transpose"] == num_transposes
    assert without["RoPE"] == with_turns["RoPE"] == num_rotary
    assert without["Reshape"] <= with_turns["Reshape"]


def test_one_head_of_keys_is_not_taken_for_what_all_heads_share(exported_onnx, monkeypatch):
    with_turns, without = compared(exported_onnx("mistral"), monkeypatch)
    assert without["Transpose"] < with_turns["Transpose"]
    assert without["RoPE"] == with_turns["RoPE"] > 0
