"""GGUF architectures that transformers does not have: llama.cpp's log-probabilities of the same file.

The recorded ones are those of llama.cpp build 11549 (CPU), with a cache in float32, of each first part of IDS
that ends at one of ENDS.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gguf import ExpertGatingFuncType
from gguf import GGMLQuantizationType as Type
from gguf_files import (
    EXPERT_INNER,
    EXPERTS,
    EXPERTS_USED,
    HEAD_SIZE,
    Mixture,
    vocabulary,
    write_llama_like,
)
from lone_steps import step

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "llama_cpp_logprobs.json"
IDS = np.random.default_rng(5).integers(5, len(vocabulary()[0]), 40).tolist()
LAYERS = 3
ENDS = [6, 17, 40]
TOLERANCE = 1e-3
"""Of a log-probability; llama.cpp rounds activations of quantized weights, which these files have not."""


def bailing(model):
    """Groups of experts scored by the sigmoid, and positions of a half of each head."""
    writer = model.writer
    writer.add_vocab_size(len(vocabulary()[0]))
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HEAD_SIZE // 2)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(EXPERTS_USED)
    writer.add_expert_feed_forward_length(EXPERT_INNER)
    writer.add_expert_shared_feed_forward_length(EXPERT_INNER)
    writer.add_expert_shared_count(1)
    writer.add_expert_weights_scale(2.5)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(2)
    writer.add_expert_group_used_count(1)
    writer.add_leading_dense_block_count(1)
    for layer in range(LAYERS):
        for letter in "qk":
            model.vector(f"blk.{layer}.attn_{letter}_norm.weight", f"{letter}{layer}", HEAD_SIZE)


FILES = {
    "bailingmoe2": partial(
        write_llama_like,
        architecture="bailingmoe2",
        kind=Type.F32,
        fused=True,
        layers=LAYERS,
        feed=Mixture(shared=EXPERT_INNER, gated=False, correction="correction", dense=1),
        more=bailing,
    )
}


@pytest.mark.parametrize("name", FILES)
def test_probabilities_are_those_of_llama_cpp(tmp_path, name):
    FILES[name](tmp_path / "small.gguf")
    wanted = np.array(json.loads(RECORDED.read_text())[name])
    convert(tmp_path / "small.gguf", tmp_path / "model", FLOAT_SUMS)
    session = OnnxCpuSession(tmp_path / "model" / "model.onnx")
    session.reserve(len(IDS), 1)
    session.allocate(4)
    logits = session.run(step(np.array(IDS), 0, [0, 1, 2], [end - 1 for end in ENDS]))
    session.close()
    logprobs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(logprobs, wanted, atol=TOLERANCE)
