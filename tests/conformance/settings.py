"""Settings of the servers that were recorded: checkpoint, name, graph, keys.  Data only."""

from __future__ import annotations

from dataclasses import dataclass

TEXT = """\
version: 1
task: chat
nodes:
  prompt: {{type: chat_template, template: model/chat_template.jinja}}
  tokens: {{type: tokenize, from: prompt, tokenizer: model/tokenizer.json}}
  generated:
    type: scheduler
    from: tokens
    max_sequences: 8
    max_context: 512
    cache: {{memory_gb: 0.05}}
    body:
      logits: {{type: model, from: step, device: cpu, {model}}}
      allowed: {{type: grammar, from: logits, tokenizer: model/tokenizer.json}}
      next: {{type: sampler, from: allowed%(sampler)s}}
  text: {{type: detokenize, from: generated, tokenizer: model/tokenizer.json}}
  reply: {{type: parse_reply, from: text, %(parsers)s}}
"""
READ = """\
  prompt: {{type: chat_template, template: model/chat_template.jinja}}
  tokens: {{type: tokenize, from: prompt, tokenizer: model/tokenizer.json}}
"""
BATCHER = """\
  rows:
    type: batcher
    from: tokens
    max_tokens: 512
    body:
      hidden: {{type: encoder, from: batch, device: cpu, {model}}}
"""
EMBED = f"version: 1\ntask: embed\nnodes:\n{READ}{BATCHER}" + (
    "      pooled: {{type: pool, from: hidden, how: %s}}\n      unit: {{type: normalize, from: pooled}}\n"
)
MATRYOSHKA = "  vectors: {{type: matryoshka, from: rows, dimensions: [16, 32, 64]}}\n"
CLASSIFY = (
    f"version: 1\ntask: classify\nnodes:\n{READ}{BATCHER}"
    + """\
      pooled: {{type: pool, from: hidden, how: last}}
      logits: {{type: dense, from: pooled, path: model/score}}
      likely: {{type: softmax, from: logits}}
  classes: {{type: label, from: rows, labels: model/config.json}}
"""
)
RERANK = f"""\
version: 1
task: rerank
nodes:
  tokens: {{{{type: tokenize_pairs, from: request, tokenizer: model/tokenizer.json}}}}
{BATCHER}%s
  ranking: {{{{type: rank, from: {{{{scores: rows, pairs: tokens}}}}}}}}
"""
SCORE_OF_DECODER = """\
      pooled: {{type: pool, from: hidden, how: last}}
      logits: {{type: dense, from: pooled, path: model/score}}
      score: {{type: sigmoid, from: logits}}"""
SCORE_OF_ENCODER = "      score: {{type: sigmoid, from: hidden}}"


@dataclass(frozen=True)
class Setting:
    """One server: `graph` has a place for the settings of the model's line, which depend on the engine.

    `task` is what the checkpoint is exported for, `name` what it is called, `alias` its second name.
    `loads_adapters`: clients may load some.
    """

    checkpoint: str
    name: str
    graph: str
    task: str = "text"
    alias: str | None = None
    keys: str = ""
    loads_adapters: bool = False


SETTINGS = {
    "neutral": Setting(
        "tiny-qwen3",
        "tiny",
        TEXT % {"sampler": "", "parsers": "tools: hermes"},
        alias="tiny-alias",
        loads_adapters=True,
    ),
    "own": Setting(
        "tiny-qwen3",
        "tiny",
        TEXT % {"sampler": ", defaults: model/generation_config.json", "parsers": "reasoning: qwen3"},
        alias="tiny-alias",
        keys="sk-test,sk-two",
    ),
    "embed": Setting("tiny-qwen3", "tiny-qwen3", EMBED % "last" + MATRYOSHKA, "embed"),
    "nomat": Setting(
        "tiny-qwen3", "tiny-qwen3", (EMBED % "none").replace("task: embed", "task: token_embed"), "embed"
    ),
    "bertemb": Setting("tiny-bert-embed", "tiny-bert-embed", EMBED % "cls", "embed"),
    "cls": Setting("tiny-qwen3-cls3", "tiny-qwen3-cls3", CLASSIFY, "classify"),
    "score": Setting("tiny-qwen3-score", "tiny-qwen3-score", RERANK % SCORE_OF_DECODER, "rerank"),
    "bertscore": Setting("tiny-bert-score", "tiny-bert-score", RERANK % SCORE_OF_ENCODER, "rerank"),
}

GROUPS = {
    "gen": "neutral",
    "chat": "neutral",
    "tool": "neutral",
    "resp": "neutral",
    "gen2": "own",
    **{name: name for name in ("embed", "cls", "score", "bertemb", "bertscore", "nomat")},
}
"""Group of recordings → the name of its server's settings."""
