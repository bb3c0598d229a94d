"""Writes the graph of an exported encoder-decoder model of text: text → encoder → decoder → text."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports.export_files import PLACES, TOKENIZER

NEEDED = ("encoder.onnx", "decoder.onnx", TOKENIZER, "generation_config.json")
LINES = """\
task: completion
nodes:
  tokens: {{type: tokenize, from: request.prompts, tokenizer: {at}tokenizer.json}}
  encoded:
    type: batcher
    from: tokens
    body:
      hidden: {{type: encoder, from: batch, path: {at}encoder.onnx, device: cpu}}
  start: {{type: decoder_start, from: tokens, settings: {at}generation_config.json}}
  generated:
    type: scheduler
    from: {{tokens: start, context: encoded}}
    max_sequences: 64
    max_step_tokens: 512
    cache: {{reuse_prefixes: true}}
    body:
      logits: {{type: model, from: step, path: {at}decoder.onnx, device: cpu}}
      allowed: {{type: grammar, from: logits, tokenizer: {at}tokenizer.json}}
      next: {{type: sampler, from: allowed, defaults: {at}generation_config.json}}
  text: {{type: detokenize, from: generated, tokenizer: {at}tokenizer.json}}
"""


def find_text_pair(folder: Path) -> str | None:
    """What a graph puts before the names of the files of the encoder and decoder in `folder`; None without
    them.  A Whisper model has these files too, and others.
    """
    for place in PLACES:
        if all((folder / place / name).is_file() for name in NEEDED):
            return "" if place == "." else f"{place}/"
    return None


def text_pair_lines(prefix: str) -> list[str]:
    """The lines of graph.yaml from the task on."""
    return LINES.format(at=prefix).splitlines()
