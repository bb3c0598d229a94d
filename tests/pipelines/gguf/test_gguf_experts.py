"""Routed experts of GGUF files that lack a weight."""

from __future__ import annotations

import pytest
from gguf_files import EXPERT_INNER, EXPERTS, EXPERTS_USED, Mixture, write_llama_like

from pipelines.gguf.convert import IN_FILE, convert
from pipelines.gguf.errors import GgufError


def sizes(model):
    model.writer.add_expert_count(EXPERTS)
    model.writer.add_expert_used_count(EXPERTS_USED)
    model.writer.add_expert_feed_forward_length(EXPERT_INNER)


@pytest.mark.parametrize("side", ["gate", "up", "down"])
def test_experts_without_one_of_their_weights_are_refused(side, tmp_path):
    """Also those without a gate: no architecture that is served has such experts."""
    lost = f"blk.1.ffn_{side}_exps.weight"

    def feed(model, at, theirs):
        add = model.writer.add_tensor
        model.writer.add_tensor = lambda name, *args, **options: name == lost or add(name, *args, **options)
        Mixture()(model, at, theirs)
        model.writer.add_tensor = add

    path = tmp_path / "lost.gguf"
    write_llama_like(path, "qwen3moe", norms=True, feed=feed, more=sizes)
    with pytest.raises(GgufError, match=f"^lost.gguf has no tensor {lost}$"):
        convert(path, tmp_path / "model", IN_FILE)
