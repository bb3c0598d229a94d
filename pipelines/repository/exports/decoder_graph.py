"""Writes the graph of an exported decoder: chat with a chat template, else completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.repository.exports.export_files import ChatTemplates, Export, find_chat_template
from pipelines.repository.exports.template_parsers import find_parsers
from pipelines.repository.files.report import note_line
from pipelines.repository.files.yaml_words import settings_text

DRAFT_FILES = ("draft/openvino_model.xml", "draft/model.onnx")
"""Files of a smaller draft model with the same tokenizer, in order of preference."""


@dataclass(frozen=True)
class GenerationSettings:
    """The settings of a decoder's graph lines; of `parsers` those that are missing come from the template.

    `lookup` and `draft` are speculation lines: their settings, None for no line.
    """

    scheduler: Mapping[str, Any] = field(default_factory=dict)
    cache: Mapping[str, Any] = field(default_factory=lambda: {"reuse_prefixes": True})
    model: Mapping[str, Any] = field(default_factory=lambda: {"device": "cpu"})
    lookup: Mapping[str, Any] | None = None
    draft: Mapping[str, Any] | None = None
    parsers: Mapping[str, str | None] = field(default_factory=dict)


STEP = {"max_sequences": 64, "max_step_tokens": 512}


def settings_of(folder: Path) -> GenerationSettings:
    """The settings for an export whose graph is written by its files alone; `folder` is that of the graph.

    Without a draft model in it, draft tokens are looked up, which is stopped where it does not pay.
    """
    file = next((file for file in DRAFT_FILES if (folder / file).is_file()), None)
    return (
        GenerationSettings(draft={"path": file, "device": "cpu"}) if file else GenerationSettings(lookup={})
    )


class MediaLines(NamedTuple):
    """Lines for the images of a vision model, or the sounds of an audio model; `given` and `rows` are the
    names of those that read and encode them.
    """

    lines: Sequence[str]
    given: str
    rows: str


def generation_lines(export: Export, said: GenerationSettings, media: MediaLines | None = None) -> list[str]:
    """The lines of graph.yaml from the task on."""
    template = find_chat_template(export)
    tokenizer = settings_text({"tokenizer": export.tokenizer})
    reply, notes = _reply(template, said) if template else ([], [])
    lines = [*notes, f"task: {'chat' if template else 'completion'}", "nodes:"]
    lines += media.lines if media else []
    special = {"add_special_tokens": True} if media else {}
    if template:
        settings = settings_text({"template": template.file, **special})
        lines.append(f"  prompt: {{type: chat_template{settings}}}")
    source = "prompt" if template else "request.prompts"
    read = "tokens"
    if media:
        source, read = (
            f"{{prompts: {source}, images: {media.given}}}",
            f"{{tokens: tokens, images: {media.rows}}}",
        )
    lines.append(f"  tokens: {{type: tokenize, from: {source}{tokenizer}}}")
    lines += _generation(export, said, tokenizer, read)
    lines.append(f"  text: {{type: detokenize, from: generated{tokenizer}}}")
    return lines + reply


def _reply(template: ChatTemplates, said: GenerationSettings) -> tuple[list[str], list[str]]:
    """The line that parses replies, and notes on the parsers that the template does not show."""
    if {"reasoning", "tools"} <= said.parsers.keys():
        settings, notes = dict(said.parsers), []
    else:
        found = find_parsers(template.text, template.tool_use)
        settings, notes = {**found.settings, **said.parsers}, [note_line(note) for note in found.notes]
    return [f"  reply: {{type: parse_reply, from: text{settings_text(settings)}}}"], notes


def _generation(export: Export, said: GenerationSettings, tokenizer: str, read: str) -> list[str]:
    defaults = settings_text({"defaults": export.names("generation_config.json")})
    source, body = "step", []
    for name, kind, settings in (("found", "lookup", said.lookup), ("drafted", "draft", said.draft)):
        if settings is not None:
            body.append(f"      {name}: {{type: {kind}, from: {source}{settings_text(settings)}}}")
            source = name
    model = settings_text({"path": export.model_path, **said.model})
    comments = {"max_step_tokens": "  # prompt chunks and decode tokens share one step"}
    bound = "" if "memory_gb" in said.cache else "  # add memory_gb to bound it; else part of the free memory"
    return [
        "  generated:",
        "    type: scheduler",
        f"    from: {read}",
        *(
            f"    {name}: {value}{comments.get(name, '')}"
            for name, value in {**STEP, **said.scheduler}.items()
        ),
        f"    cache: {{{settings_text(said.cache).removeprefix(', ')}}}{bound}",
        "    body:",
        *body,
        f"      logits: {{type: model, from: {source}{model}}}",
        f"      allowed: {{type: grammar, from: logits{tokenizer}}}",
        f"      next: {{type: sampler, from: allowed{defaults}}}",
    ]
