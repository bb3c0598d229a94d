"""The graph of an exported model that has none: `braid new-graph` writes it, and the folder is served by it.

Looks at file names, config.json and the chat template; opens no model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_FILES = {"openvino_model.xml": "openvino", "model.onnx": "onnx", "onnx/model.onnx": "onnx"}
"""Model file → kind of export, in the order of preference.  Exports for browsers keep their graphs apart."""
TENSOR_FILES = {"openvino_model.xml": "openvino", "model.xml": "openvino", "model.onnx": "onnx"}
"""Model file → kind of export, for models of tensors, which have no tokenizer."""
DRAFT_FILES = ("draft/openvino_model.xml", "draft/model.onnx")
"""A smaller export of the same tokenizer beside the model, in the order of preference."""
TOKENIZER = "tokenizer.json"
CONFIGS = ("config.json", "genai_config.json")
"""What describes the model: transformers' file, or onnxruntime-genai's where that is missing."""
PLACES = (".", "model")
"""Where an export may lie in a model's folder."""
GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""How the names of architectures that generate text end."""

TOOL_MARKS: dict[str, tuple[str, ...]] = {
    "seed_oss": ("<seed:tool_call>",),
    "minimax_m2": ("<minimax:tool_call>",),
    "glm45": ("<arg_key>",),
    "kimi_k2": ("<|tool_calls_section_begin|>",),
    "qwen3_coder": ("<function=",),
    "deepseek_v3": ("<｜tool▁sep｜>", "```json"),
    "deepseek_v31": ("<｜tool▁sep｜>",),
    "mistral": ("[TOOL_CALLS]",),
    "granite": ("<|tool_call|>",),
    "gemma4": ("<|tool_call>",),
    "functiongemma": ("<start_function_call>",),
    "internlm": ("<|plugin|>",),
    "olmo3": ("<function_calls>",),
    "jamba": ("<tool_calls>",),
    "longcat": ("<longcat_tool_call>",),
    "lfm2": ("<|tool_list_start|>",),
    "phi4_mini_json": ("functools[",),
    "openai": ("<|channel|>commentary",),
    "llama4_pythonic": ("[func_name1(", "<|header_start|>"),
    "pythonic": ("[func_name1(",),
    "llama3_json": ('"parameters": dictionary of argument name',),
    "hermes": ("<tool_call>",),
}
REASONING_MARKS: dict[str, tuple[str, ...]] = {
    "seed_oss": ("<seed:think>",),
    "mistral": ("[THINK]",),
    "gemma4": ("<|channel>thought",),
    "openai_gptoss": ("<|channel|>analysis",),
    "granite": ("Here is my thought process:",),
    "kimi_k2": ("<think>", "<|tool_calls_section_begin|>"),
    "minimax_m2": ("<think>", "<minimax:tool_call>"),
    "glm45": ("<think>", "<arg_key>"),
    "hunyuan_a13b": ("<think>", "<answer>"),
    "deepseek_v3": ("<think>", "<｜Assistant｜>"),
    "qwen3": ("<think>",),
    "deepseek_r1": ("</think>",),
}
"""Name of a parser → all that a chat template says when the model was taught its format; the first fits."""

HEADER = "# Made by `braid new-graph` from the files of this folder; change what you like.\n"


@dataclass(frozen=True)
class Export:
    """An exported model: `place` is its folder, `prefix` is what its files' names begin with in a graph."""

    kind: str
    model: str
    place: Path
    prefix: str

    def names(self, name: str) -> str | None:
        """The file as a graph names it, None when it is not there."""
        return self.prefix + name if (self.place / name).is_file() else None


def recognise(folder: Path) -> str | None:
    """`openvino` or `onnx` when the folder holds a model that `new_graph` writes a graph for, else None."""
    export = find_export(folder)
    if export is not None:
        return export.kind
    return TENSOR_FILES.get(find_tensor_model(folder) or "")


def find_tensor_model(folder: Path) -> str | None:
    """The model file in `folder` that takes and gives plain tensors, as far as the files beside it tell.

    A model of text without its tokenizer is none: something is missing there.
    """
    if (folder / TOKENIZER).is_file() or _generates(folder):
        return None
    return next((name for name in TENSOR_FILES if (folder / name).is_file()), None)


def find_export(folder: Path) -> Export | None:
    """The export in `folder` or in its subfolder `model`."""
    for place in PLACES:
        where = folder / place
        if not (where / TOKENIZER).is_file() or not _generates(where):
            continue
        for name, kind in MODEL_FILES.items():
            if (where / name).is_file():
                return Export(kind, name, where, "" if place == "." else f"{place}/")
    return None


def new_graph(folder: Path) -> str:
    """The text of a graph.yaml for the export in `folder`: chat with a chat template, else completion.

    A model without a tokenizer is one of tensors, and the task is infer.  Raises ValueError when there is
    no export that Braid recognises.
    """
    export = find_export(folder)
    if export is None and (model := find_tensor_model(folder)) is not None:
        return _inference(model)
    if export is None:
        wanted, configs = " or ".join(MODEL_FILES), " or ".join(CONFIGS)
        raise ValueError(
            f"{folder} holds no exported language model: {wanted} beside {TOKENIZER} and {configs}; "
            f"nor one of tensors: {' or '.join(TENSOR_FILES)} without them"
        )
    template_file, template = _chat_template(export)
    tokenizer = export.prefix + TOKENIZER
    lines = [HEADER + "version: 1", f"task: {'chat' if template_file else 'completion'}", "nodes:"]
    if template_file:
        lines.append(f"  prompt: {{type: chat_template, template: {template_file}}}")
    source = "prompt" if template_file else "request.prompts"
    lines.append(f"  tokens: {{type: tokenize, from: {source}, tokenizer: {tokenizer}}}")
    lines += _generation(export, next((file for file in DRAFT_FILES if (folder / file).is_file()), None))
    lines.append(f"  text: {{type: detokenize, from: generated, tokenizer: {tokenizer}}}")
    if template_file:
        lines.append(f"  reply: {{type: parse_reply, from: text{_parsers(template)}}}")
    return "\n".join(lines) + "\n"


def _inference(model: str) -> str:
    lines = [
        HEADER + "version: 1",
        "task: infer",
        "nodes:",
        "  result:",
        "    type: infer",
        "    from: request",
        "    body:",
        f"      outputs: {{type: tensor_model, from: batch, path: {model}, device: cpu}}",
    ]
    return "\n".join(lines) + "\n"


def _generation(export: Export, draft: str | None) -> list[str]:
    model = export.prefix + export.model
    defaults = export.names("generation_config.json")
    guesses = [f"      guessed: {{type: draft, from: step, path: {draft}, device: cpu}}"] if draft else []
    return [
        "  generated:",
        "    type: scheduler",
        "    from: tokens",
        "    max_sequences: 64",
        "    max_step_tokens: 512  # prompt chunks and decode tokens share one step",
        "    cache: {reuse_prefixes: true}  # add memory_gb to bound it; else part of the free memory",
        "    body:",
        *guesses,
        f"      logits: {{type: model, from: {'guessed' if draft else 'step'}, path: {model}, device: cpu}}",
        f"      allowed: {{type: grammar, from: logits, tokenizer: {export.prefix}{TOKENIZER}}}",
        f"      next: {{type: sampler, from: allowed{f', defaults: {defaults}' if defaults else ''}}}",
    ]


def _chat_template(export: Export) -> tuple[str | None, str]:
    """The file that holds the chat template, as a graph names it, and the template's text."""
    if file := export.names("chat_template.jinja"):
        return file, (export.place / "chat_template.jinja").read_text(encoding="utf-8", errors="replace")
    template = _json(export.place / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several named templates; "default" serves plain chat
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    if isinstance(template, str):
        return export.prefix + "tokenizer_config.json", template
    return None, ""


def _parsers(template: str) -> str:
    """The settings of `parse_reply` that the template's own words ask for."""
    found = ""
    for setting, marks in (("reasoning", REASONING_MARKS), ("tools", TOOL_MARKS)):
        name = next(
            (name for name, all_of in marks.items() if all(mark in template for mark in all_of)), None
        )
        found += f", {setting}: {name}" if name else ""
    return found


def _generates(place: Path) -> bool:
    """Whether config.json names an architecture that generates text, or names none.

    Where only genai_config.json is there: whether it describes a decoder without an encoder.
    """
    described = next((name for name in CONFIGS if (place / name).is_file()), None)
    if described == "genai_config.json":
        model = _json(place / described).get("model")
        return isinstance(model, dict) and "decoder" in model and "encoder" not in model
    if described is None:
        return False
    architectures = _json(place / "config.json").get("architectures")
    if not isinstance(architectures, list) or not architectures:
        return True
    return any(str(each).endswith(GENERATES) for each in architectures)


def _json(file: Path) -> dict[str, Any]:
    """The object in a file; {} when there is none that can be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
