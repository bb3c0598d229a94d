"""A model folder without a model: the whole life of a request, with tokens from a hash.

`python tests/e2e/fake_model.py FOLDER` writes one by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

GRAPH = """\
version: 1
task: chat
nodes:
  prompt: {type: chat_template, template: chat_template.jinja}
  tokens: {type: tokenize, from: prompt, tokenizer: tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    cache: {memory_gb: 0.001}
    body:
      logits: {type: model, from: step, path: fake.json, device: fake}
      next: {type: sampler, from: logits, defaults: generation_config.json}
  text: {type: detokenize, from: generated, tokenizer: tokenizer.json}
  reply: {type: parse_reply, from: text}
"""
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def byte_tokenizer() -> Tokenizer:
    """A tokenizer whose 256 tokens are the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_model(folder: Path, *, step_s: float = 0.005, max_context: int = 4096, graph: str = GRAPH) -> None:
    """Make `folder` a model whose every step takes `step_s` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.yaml").write_text(graph)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    # one token in sixty-four ends a reply that does not ignore end tokens
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": list(range(4))}))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "fake.json").write_text(
        json.dumps({"vocab_size": 256, "block_tokens": 16, "max_context": max_context, "step_s": step_s})
    )


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
