"""The chats of the measurement: real texts for a chat model, token chains for the benchmark's own model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer

from pipelines.nodes.text.templates.chat_template import read_template
from pipelines.repository.exports.export_files import find_chat_template, find_export
from tools.lab.bench.making import make_load
from tools.lab.bench.workloads import DRAFTABLE

FILE = Path(__file__).with_name("chats.yaml")
FREE = "free"
"""The kind of chats that ask for nothing that stands above: their answers are drawn at a temperature of 1."""
MAX_TOKENS = 160
CHAINS = ("no copying", "misleading", "copying")


@dataclass(frozen=True)
class Chat:
    """A prompt, the greatest length of its answer, and the JSON Schema that the answer is held to."""

    ids: list[int]
    max_tokens: int
    schema: dict[str, Any] | None = None


def chats_of(folder: Path, tokenizer: Tokenizer, vocab_size: int, seed: int) -> dict[str, list[Chat]]:
    """Kind → chats: those of chats.yaml where the model has a chat template, else chains drawn by `seed`."""
    export = find_export(folder)
    assert export is not None, f"{folder} holds no model with a tokenizer"
    template = find_chat_template(export)
    return _read(folder / template.file, tokenizer) if template else _chains(vocab_size, seed)


def _read(template_file: Path, tokenizer: Tokenizer) -> dict[str, list[Chat]]:
    template = read_template(template_file)

    def chat(given: dict[str, Any]) -> Chat:
        text = template.render(given["messages"], None, True, False, {})
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return Chat(ids, given.get("max_tokens", MAX_TOKENS), given.get("schema"))

    kinds = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {kind: [chat(each) for each in some] for kind, some in kinds.items()}


def _chains(vocab_size: int, seed: int) -> dict[str, list[Chat]]:
    loads = {kind: make_load(DRAFTABLE[kind], seed, vocab_size) for kind in CHAINS}
    return {
        kind: [Chat(each.prompt, each.output_tokens) for each in load.requests]
        for kind, load in loads.items()
    }
