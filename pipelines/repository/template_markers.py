"""What a chat template says of the format of tool calls and of reasoning → the names of their parsers.

Knows words of templates; knows no file and no graph.
"""

from __future__ import annotations

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


def parsers(template: str) -> str:
    """The settings of `parse_reply` that the template's own words ask for."""
    found = ""
    for setting, marks in (("reasoning", REASONING_MARKS), ("tools", TOOL_MARKS)):
        name = next(
            (name for name, all_of in marks.items() if all(mark in template for mark in all_of)), None
        )
        found += f", {setting}: {name}" if name else ""
    return found
