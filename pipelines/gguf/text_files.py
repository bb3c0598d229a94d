"""The files beside a converted decoder: tokenizer, chat template, config and sampling defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.embedder import ranks
from pipelines.gguf.encoder_facts import BertFacts
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reranker import CONFIG
from pipelines.gguf.tokenizer import make_tokenizer
from pipelines.gguf.vocabulary import read_vocabulary

TEMPLATES = {
    "tokenizer.chat_template": "chat_template.jinja",
    "tokenizer.chat_template.tool_use": "additional_chat_templates/tool_use.jinja",
}
"""Key of a chat template → file of it."""
SAMPLING = {
    "temp": ("temperature", 0.0, 100.0),
    "top_p": ("top_p", 0.0, 1.0),
    "min_p": ("min_p", 0.0, 1.0),
    "penalty_repeat": ("repetition_penalty", 0.01, 100.0),
}
"""`general.sampling.*` → field of generation_config.json, least, most."""
TEXTS = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
TEXTS |= {"seperator": "sep_token", "cls": "cls_token", "mask": "mask_token"}


def write_text_files(
    metadata: Metadata, facts: DecoderFacts | BertFacts, embeddings: int, folder: Path
) -> None:
    """Write them to `folder`.  Raises `GgufError`."""
    vocabulary = read_vocabulary(metadata, embeddings)
    make_tokenizer(metadata, vocabulary).save(str(folder / "tokenizer.json"))
    spoken = {field: vocabulary.text(role) for role, field in TEXTS.items() if role in vocabulary.roles}
    _put(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **spoken})
    for key, name in TEMPLATES.items():
        if template := metadata.text(key):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(template, encoding="utf-8")
    ids: dict[str, Any] = {
        f"{name}_token_id": vocabulary.roles[role]
        for role, name in (("bos", "bos"), ("padding", "pad"))
        if role in vocabulary.roles
    }
    ids["eos_token_id"] = vocabulary.ends()
    ranking = CONFIG if ranks(metadata) else {}
    sizes = {"max_position_embeddings": facts.context, "vocab_size": embeddings}
    _put(folder / "config.json", {"model_type": facts.name, **ranking, **sizes, **ids})
    _put(folder / "generation_config.json", ids | _sampling(metadata))


def _sampling(metadata: Metadata) -> dict[str, float]:
    """The sampling defaults that the file recommends."""
    defaults: dict[str, float] = {}
    for name, (field, least, most) in SAMPLING.items():
        value = metadata.number(f"general.sampling.{name}", -1, -1, most)
        if value >= least:
            defaults[field] = value
    top_k = metadata.number("general.sampling.top_k", -1, -1)
    if top_k >= 0:
        defaults["top_k"] = int(top_k)
    return defaults | ({"do_sample": True} if defaults else {})


def _put(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
