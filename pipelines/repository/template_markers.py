"""Selects the tool call parser and the reasoning parser of a chat template by the markers in its text."""

from __future__ import annotations

from pipelines.repository.yaml_words import settings_text

TOOL_MARKERS: dict[str, tuple[str, ...]] = {
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
REASONING_MARKERS: dict[str, tuple[str, ...]] = {
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
"""Name of a parser → markers that all occur in templates of its format; the first match is used."""


def find_parsers(template: str) -> dict[str, str]:
    """The settings of `parse_reply` for the markers in a template."""
    found = {}
    for setting, markers in (("reasoning", REASONING_MARKERS), ("tools", TOOL_MARKERS)):
        for name, needed in markers.items():
            if all(marker in template for marker in needed):
                found[setting] = name
                break
    return found


def parsers(template: str) -> str:
    """The same as text of a graph line."""
    return settings_text(find_parsers(template))
