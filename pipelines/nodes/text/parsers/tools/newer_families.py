"""The tool-call formats of the families of 2024 to 2026 that need more than JSON between two tags.

Data only, as in families.py, by vLLM's names of the formats where it has one.
"""

from __future__ import annotations

from pipelines.nodes.text.parsers.tools.calls import CallBlock, Family
from pipelines.nodes.text.parsers.tools.element_calls import ElementReader
from pipelines.nodes.text.parsers.tools.json_calls import named, objects
from pipelines.nodes.text.parsers.tools.keyed_calls import KeyedReader
from pipelines.nodes.text.parsers.tools.tagged_calls import tagged

NAME = r"(?P<name>\w[\w.\-]*+)"
KEY = r"(?:[^\s\"'>]|\s++(?!string=\"\w*\"\s*>))++"
"""The key of a parameter, up to its quote, an attribute or the end of the tag.

A tag that does not end is read once, not once for each of its blanks.
"""
DSML = "｜DSML｜"


def _invoked(mark: str, before: tuple[str, ...], after: tuple[str, ...]) -> Family:
    """`<invoke name="f"><parameter name="k">v</parameter></invoke>`, with a mark before each tag's name."""
    reader = tagged(
        rf"[\"']?{NAME}[\"']?\s*>\s*",
        f"<{mark}parameter name=",
        rf"[\"']?({KEY})[\"']?(?:\s++string=\"\w*\")?\s*>",
        f"</{mark}parameter>",
        after[0],
        (f"<{mark}invoke name=", *before),
    )
    return Family((CallBlock(f"<{mark}invoke name=", reader, f"</{mark}invoke>"),), before, after)


def _dsml(block: str) -> Family:
    return _invoked(DSML, (f"<{DSML}{block}>",), (f"</{DSML}{block}>",))


_COHERE = Family((CallBlock("<|START_ACTION|>", objects(), "<|END_ACTION|>"),))

FAMILIES: dict[str, Family] = {
    # JSON
    "cohere_command3": _COHERE,
    "cohere_command4": _COHERE,
    "apriel": Family((CallBlock("<tool_calls>", objects(), "</tool_calls>"),)),
    "command_r": Family((CallBlock("```json", objects(needs_arguments=True), "```"),), before=("Action:",)),
    "nemotron_json": Family((CallBlock("<TOOLCALL>", objects(), "</TOOLCALL>"),)),
    "minimax": Family(
        (CallBlock("{", objects(needs_arguments=True), bare=True),),
        before=("<tool_calls>",),
        after=("</tool_calls>",),
    ),
    "llama4_json": Family(
        (CallBlock("{", objects(needs_arguments=True), bare=True),),
        before=("<|python_start|>", "<|python_end|>"),
        between=";",
    ),
    "gigachat3": Family(
        (CallBlock("function call<|role_sep|>", objects(needs_arguments=True)),), before=("<|message_sep|>",)
    ),
    "gigachat31": Family((CallBlock("<|function_call|>", objects(needs_arguments=True)),)),
    "functionary_v31": Family((CallBlock("<function=", named(rf"{NAME}\s*>\s*"), "</function>"),)),
    "apertus": Family((CallBlock("<|tools_prefix|>", KeyedReader, "<|tools_suffix|>"),)),
    # parameters in tags
    "deepseek_v32": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "muse_glimmer": _invoked("atem:", ("<atem:function_calls>",), ("</atem:function_calls>",)),
    "step3": _invoked(
        "steptml:",
        ("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>function<｜tool_sep｜>"),
        ("<｜tool_call_end｜>", "<｜tool_calls_end｜>"),
    ),
    "minicpm5": Family((CallBlock("<function name=", ElementReader, "</function>"),)),
}
