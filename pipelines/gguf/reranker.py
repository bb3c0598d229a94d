"""What makes a decoder that embeds texts a reranker: the row that scores a pair, and the pair's template.

The score is the probability of "yes" beside "no", as in Qwen3-Reranker: the sigmoid of the difference of
their rows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.weights import read_any

ROWS, LABELS, TEMPLATE = "cls.output.weight", "classifier.output_labels", "tokenizer.chat_template.rerank"
ANSWERS = ["yes", "no"]
PARTS = {"{query}": "messages[0].content", "{document}": "messages[1].content"}
"""What stands in the file's template → the same in a template of messages."""
CONFIG = {"architectures": ["DecoderForSequenceClassification"], "num_labels": 1}
"""What config.json says of a model that gives one score."""


def write_reranker(metadata: Metadata, linears: LinearLayers, width: int, folder: Path) -> None:
    """Write score/ and score_template.jinja to `folder`.  Raises `GgufError`."""
    from safetensors.numpy import save_file

    labels, template = metadata.texts(f"{metadata.architecture}.{LABELS}"), metadata.text(TEMPLATE)
    if labels != ANSWERS or template is None:
        raise GgufError(
            f"ranks by {labels} and a template {TEMPLATE}; {ANSWERS} and a template of pairs are served"
        )
    yes, no = read_any(linears.tensor(ROWS, len(ANSWERS), width))
    (folder / "score").mkdir()
    save_file({"linear.weight": (yes - no)[None]}, folder / "score" / "model.safetensors")
    settings: dict[str, object] = {"in_features": width, "out_features": 1, "bias": False}
    settings["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "score" / "config.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")
    (folder / "score_template.jinja").write_text(_as_jinja(template), encoding="utf-8")


def _as_jinja(template: str) -> str:
    """Each part as an expression: the file's text may hold what Jinja would read."""
    pieces = re.split("(" + "|".join(map(re.escape, PARTS)) + ")", template)
    return "".join(f"{{{{ {PARTS.get(piece) or json.dumps(piece)} }}}}" for piece in pieces if piece)
