"""A mixed, chunked, prefix-sharing batch gives the tokens that transformers gives each prompt alone."""

from __future__ import annotations

import pytest
from breadth import after
from greedy_batches import generate_together, greedy_engine
from tiny_decoders import prompts

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

pytestmark = pytest.mark.slow

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
FAMILIES = ("mistral", "llama", "qwen3", "bloom", "gemma3_text", "qwen2", "phi3")
DROPPED_BY_PAGING = ("gpt_neo", "llama4_text")
"""Families with local windows or chunks that OpenVINO's transformation does not read."""


@pytest.mark.parametrize("family", after(1, FAMILIES + DROPPED_BY_PAGING))
def test_tokens_equal_transformers(family, exported, generated):
    session = OpenVINOSession(exported(family)[1] / "openvino_model.xml", EXACT)
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    assert texts == generated(family)
    assert num_cached >= 64
    assert all(len(set(text)) > 3 for text in texts), "degenerate text proves nothing"
