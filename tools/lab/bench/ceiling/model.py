"""A fake model with a chosen step time, whose tokens are words."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

NAME = "fake"
NUM_WORDS = 64
SIGHT_TOKENS = 8
"""How many tokens the next one depends on: few, so that the cost is the same at every context."""
BLOCK_TOKENS = 16
GRAPH = """\
version: 1
task: chat
nodes:
  prompt: {{type: chat_template, template: chat_template.jinja}}
  tokens: {{type: tokenize, from: prompt, tokenizer: tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: {max_sequences}
    max_step_tokens: 2048
    cache: {{memory_gb: 0.1}}
    body:
      logits: {{type: model, from: step, path: fake.json, device: fake}}
      next: {{type: sampler, from: logits}}
  text: {{type: detokenize, from: generated, tokenizer: tokenizer.json}}
  reply: {{type: parse_reply, from: text, reasoning: qwen3, tools: hermes}}
"""


def write_model(folder: Path, max_sequences: int, step_s: float) -> None:
    """Write a model to `folder` whose steps take `step_s` seconds in addition to the fake's own time."""
    folder.mkdir(parents=True)
    _words().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    (folder / "graph.yaml").write_text(GRAPH.format(max_sequences=max_sequences))
    fake = {"vocab_size": NUM_WORDS, "step_s": step_s, "sight_tokens": SIGHT_TOKENS}
    (folder / "fake.json").write_text(json.dumps({**fake, "block_tokens": BLOCK_TOKENS}))


def _words() -> Tokenizer:
    """Tokens of a space and one or two letters: whole characters, as most tokens of real text are."""
    letters = "abcdefgh"
    words = [f"Ġ{first}{second}" for first in letters for second in letters]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
