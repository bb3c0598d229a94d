"""The model of the end-to-end tests: fake, of a chosen pace, with end tokens.

`python tests/e2e/fake_model.py FOLDER` writes one by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fake_models import FAKE_GRAPH, byte_tokenizer, write_fake_model

__all__ = ["GRAPH", "byte_tokenizer", "write_model"]

GRAPH = FAKE_GRAPH.replace("from: logits}", "from: logits, defaults: generation_config.json}")
END_TOKENS = list(range(4))  # one token in sixty-four ends a reply that does not ignore end tokens


def write_model(folder: Path, *, step_s: float = 0.005, max_context: int = 4096, graph: str = GRAPH) -> None:
    """Make `folder` a model whose every step takes `step_s` seconds."""
    write_fake_model(folder, graph, step_s=step_s, max_context=max_context, block_tokens=16)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": END_TOKENS}))


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
