"""Models around the fake decoder, used from Python."""

from __future__ import annotations

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model

from pipelines import Local

GRAMMAR = "      allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
HELD_GRAPH = FAKE_GRAPH.replace(
    "      next: {type: sampler, from: logits}", f"{GRAMMAR}      next: {{type: sampler, from: allowed}}"
).replace("reasoning: qwen3, ", "")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Two models: `tiny`, and `held`, whose graph has a grammar node."""
    folder = tmp_path_factory.mktemp("models")
    write_fake_model(folder / "tiny")
    write_fake_model(folder / "held", HELD_GRAPH)
    return folder


@pytest.fixture(scope="session")
def braid(folder):
    with Local(folder) as braid:
        yield braid
