"""HttpLLMCalculator: the options of a generating model, and its graph lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.repository.exports.decoder_graph import GenerationSettings, generation_lines
from pipelines.repository.exports.export_files import Export
from pipelines.repository.files.report import Report
from pipelines.repository.files.text_format import TextMessage
from pipelines.repository.ovms.devices import PROMPT_LOOKUP, device, read_plugin_config
from pipelines.repository.ovms.model_place import find_model
from pipelines.repository.ovms.options import Given, Option

MESSAGE = "LLMCalculatorOptions"
DRAFTS_SHARE = "a draft model shares the steps and the block table of the main one"
EXACT = "attention here is exact, over the whole context; `cache_size` bounds the memory"
OPTIONS = (
    Option("models_path", str, required=True, sets="tokenizer"),
    Option("max_num_batched_tokens", int, 256, sets="max_step_tokens"),
    Option("max_num_seqs", int, 256, sets="max_sequences"),
    Option("max_tokens_limit", int, sets="max_tokens_limit"),
    Option("best_of_limit", int, 20, sets="best_of_limit"),
    Option("cache_size", int, 0, sets="memory_gb"),
    Option("enable_prefix_caching", bool, default=False, sets="reuse_prefixes"),
    Option("draft_models_path", str, sets="type: draft, from"),
    Option("device", str, "", sets="type: model, from"),
    Option("draft_device", str, ""),
    Option("plugin_config", str, "", sets="type: lookup, from"),
    Option("tool_parser", str, sets="tools"),
    Option("reasoning_parser", str, sets="reasoning"),
    Option("pipeline_type", ("LM", "VLM", "LM_CB", "VLM_CB", "OMNI", "AUTO"), "AUTO"),
    Option(
        "dynamic_split_fuse",
        bool,
        default=True,
        note="prompts are always computed in parts, beside decoding ones",
    ),
    Option("draft_max_num_batched_tokens", int, note=DRAFTS_SHARE),
    Option("draft_cache_size", int, note=DRAFTS_SHARE),
    Option("draft_block_size", int, note=DRAFTS_SHARE),
    Option("draft_max_num_seqs", int, note=DRAFTS_SHARE),
    Option("draft_dynamic_split_fuse", bool, note=DRAFTS_SHARE),
    Option(
        "draft_eagle3_mode",
        bool,
        default=False,
        refused="EAGLE-3 drafts are not run; use a draft model of the family",
    ),
    Option("cache_eviction_config", TextMessage, note=EXACT),
    Option("sparse_attention_config", TextMessage, note=EXACT),
    Option("cache_interval_multiplier", int, note="states of hybrid models are held at each sequence's end"),
    Option(
        "enable_tool_guided_generation",
        bool,
        default=False,
        note="calls are always held to the declared tools",
    ),
    Option("chat_template_mode", ("MINJA", "JINJA"), note="templates are rendered by Jinja"),
)
TEXT_PIPELINES = ("LM", "LM_CB", "AUTO")
NO_PARSER = "none"
TOOLS = {
    "hermes3": "hermes",
    "llama3": "llama3_json",
    "mistral": "mistral",
    "devstral": "mistral",
    "phi4": "phi4_mini_json",
    "gptoss": "openai",
    "qwen3coder": "qwen3_coder",
    "lfm2": "lfm2",
    "gemma4": "gemma4",
    "minicpm5": "minicpm5",
    "onyx": "muse_glimmer",
}
REASONING = {
    "qwen3": "qwen3",
    "gptoss": "openai_gptoss",
    "gemma4": "gemma4",
    "lfm2": "lfm2",
    "minicpm5": "qwen3",
    "onyx": "muse_glimmer",
}
"""OpenVINO Model Server's name of a parser → Braid's."""


def graph_lines(options: Given, folder: Path, override: str | None, report: Report) -> list[str]:
    """The lines of graph.yaml from the task on; [] with a problem in `report`."""
    kind = options["pipeline_type"]
    if kind not in TEXT_PIPELINES:
        report.problem(
            options.line("pipeline_type"), f"pipeline_type {kind} reads images or sound; Braid reads text"
        )
    model = _model(options, "device", override, report)
    lookup: dict[str, Any] | None = {} if model.pop(PROMPT_LOOKUP, False) else None
    export, draft = (
        find_model(options, "models_path", folder, report),
        _draft(options, folder, override, report),
    )
    parsers = _parser(options, "tool_parser", "tools", TOOLS, report)
    parsers |= _parser(options, "reasoning_parser", "reasoning", REASONING, report)
    settings = GenerationSettings(_scheduler(options, report), _cache(options), model, lookup, draft, parsers)
    return generation_lines(export, settings) if export else []


def _model(given: Given, name: str, override: str | None, report: Report) -> dict[str, Any]:
    line = given.line(name)
    where = device(
        given[name],
        override,
        gpus=True,
        problem=lambda text: report.problem(line, text),
        note=lambda text: report.note(line, text),
    )
    return {"device": where, **read_plugin_config(given, report, decodes=True)}


def _draft(options: Given, folder: Path, override: str | None, report: Report) -> dict[str, Any] | None:
    others = [name for name in options.lines if name.startswith("draft_") and name != "draft_models_path"]
    if "draft_models_path" not in options:
        for name in others:
            report.problem(options.line(name), f"`{name}` goes with `draft_models_path`, which is missing")
        return None
    export: Export | None = find_model(options, "draft_models_path", folder, report)
    name = "draft_device" if "draft_device" in options else "device"
    quiet = Report(report.source) if name == "device" else report
    line = options.line(name)
    where = device(
        options[name],
        override,
        gpus=True,
        problem=lambda text: quiet.problem(line, text),
        note=lambda text: quiet.note(line, text),
    )
    return {"path": export.model_path if export else "", "device": where}


def _scheduler(options: Given, report: Report) -> dict[str, int]:
    sequences, tokens = options["max_num_seqs"], options["max_num_batched_tokens"]
    if tokens <= sequences:
        report.note(
            options.line("max_num_batched_tokens"),
            f"max_num_batched_tokens is {2 * sequences}, not {tokens}: a step here takes more tokens than "
            f"max_num_seqs, {sequences}",
        )
        tokens = 2 * sequences
    limits = {name: options[name] for name in ("max_tokens_limit", "best_of_limit") if name in options}
    return {"max_sequences": sequences, "max_step_tokens": tokens, **limits}


def _cache(given: Given) -> dict[str, Any]:
    bound = {"memory_gb": given["cache_size"]} if given["cache_size"] else {}
    return {**bound, "reuse_prefixes": given["enable_prefix_caching"]}


def _parser(
    options: Given, name: str, setting: str, names: dict[str, str], report: Report
) -> dict[str, str | None]:
    """The setting of `parse_reply` for an option; {} leaves the choice to the template."""
    value = options[name]
    if value in (None, ""):
        return {}
    if value != NO_PARSER and value not in names:
        report.problem(
            options.line(name), f"{name} {value} is not one that Braid has: {', '.join(names)}, {NO_PARSER}"
        )
    return {setting: names.get(value)}
