"""What every test may use: a tiny byte-level tokenizer, and model folders around the fake engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""
FAKE_GRAPH = """\
version: 1
task: chat
nodes:
  prompt: {type: chat_template, template: chat_template.jinja}
  tokens: {type: tokenize, from: prompt, tokenizer: tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    max_sequences: 64
    max_step_tokens: 256
    cache: {memory_gb: 0.01}
    body:
      logits: {type: model, from: step, path: fake.json, device: fake}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated, tokenizer: tokenizer.json}
  reply: {type: parse_reply, from: text, reasoning: qwen3, tools: hermes}
"""


def byte_tokenizer() -> Tokenizer:
    """One token per byte, then ChatML's special tokens: 259 ids, no training."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    byte_tokenizer().save(str(path))
    return path


def write_fake_model(folder: Path, graph: str = FAKE_GRAPH, **fake: object) -> Path:
    """A model folder whose decoder is the fake one: its text is a hash of what its cache holds."""
    folder.mkdir(parents=True)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "fake.json").write_text(json.dumps({"vocab_size": 259, **fake}))
    (folder / "graph.yaml").write_text(graph)
    return folder
