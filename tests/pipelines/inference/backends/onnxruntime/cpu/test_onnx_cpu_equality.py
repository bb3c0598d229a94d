"""A mixed, chunked, prefix-sharing batch gives the tokens that transformers gives each prompt alone."""

from __future__ import annotations

import pytest
from breadth import after
from greedy_batches import generate_together, greedy_engine
from tiny_decoders import prompts

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings

pytestmark = pytest.mark.slow

FAMILIES = (
    "mistral",
    "llama",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "phi3",
    "qwen2",
    "olmo2",
    "smollm3",
    "granite",
    "cohere",
    "glm4",
    "starcoder2",
    "gpt_oss",
)


@pytest.mark.parametrize("family", after(1, FAMILIES))
def test_tokens_equal_transformers(family, exported_onnx, generated):
    session = OnnxCpuSession(exported_onnx(family), OnnxCpuSettings(threads=1))
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    session.close()
    assert texts == generated(family)
    assert num_cached >= 64
    assert all(len(set(text)) > 3 for text in texts), "degenerate text proves nothing"
