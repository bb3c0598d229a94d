"""Writes the graph of an exported decoder: chat with a chat template, else completion."""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.exports import Export, find_chat_template
from pipelines.repository.template_markers import parsers

DRAFT_FILES = ("draft/openvino_model.xml", "draft/model.onnx")
"""Files of a smaller draft model with the same tokenizer, in order of preference."""


def generation_lines(export: Export, folder: Path) -> list[str]:
    """The lines of graph.yaml from the task on; `folder` is that of the graph."""
    template_file, template = find_chat_template(export)
    lines = [f"task: {'chat' if template_file else 'completion'}", "nodes:"]
    if template_file:
        lines.append(f"  prompt: {{type: chat_template, template: {template_file}}}")
    source = "prompt" if template_file else "request.prompts"
    lines.append(f"  tokens: {{type: tokenize, from: {source}, tokenizer: {export.tokenizer}}}")
    lines += _generation(export, next((file for file in DRAFT_FILES if (folder / file).is_file()), None))
    lines.append(f"  text: {{type: detokenize, from: generated, tokenizer: {export.tokenizer}}}")
    if template_file:
        lines.append(f"  reply: {{type: parse_reply, from: text{parsers(template)}}}")
    return lines


def _generation(export: Export, draft: str | None) -> list[str]:
    defaults = export.names("generation_config.json")
    source, model = "drafted" if draft else "step", export.model_path
    draft_line = [f"      drafted: {{type: draft, from: step, path: {draft}, device: cpu}}"] if draft else []
    return [
        "  generated:",
        "    type: scheduler",
        "    from: tokens",
        "    max_sequences: 64",
        "    max_step_tokens: 512  # prompt chunks and decode tokens share one step",
        "    cache: {reuse_prefixes: true}  # add memory_gb to bound it; else part of the free memory",
        "    body:",
        *draft_line,
        f"      logits: {{type: model, from: {source}, path: {model}, device: cpu}}",
        f"      allowed: {{type: grammar, from: logits, tokenizer: {export.tokenizer}}}",
        f"      next: {{type: sampler, from: allowed{f', defaults: {defaults}' if defaults else ''}}}",
    ]
