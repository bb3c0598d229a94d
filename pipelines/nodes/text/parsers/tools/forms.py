"""Formats that restrict a reply to tool calls: the text around the JSON of the arguments, for each family.

The formats are xgrammar's structural tags.  Models of a family without a form of its own are restricted to
plain JSON, which has a reader of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class CallForm:
    """`before`, then calls with `between` them, then `after`.  A call is `begin`, its arguments, `end`.

    `begin` holds NAME for the tool's name.  `trigger` starts calls in free text, and nothing else; "" where
    an answer can start the same way.
    """

    begin: str
    end: str
    before: str = ""
    between: str = ""
    after: str = ""
    trigger: str = ""


def _tagged(open: str, close: str) -> CallForm:
    return CallForm(f'{open}\n{{"name": "NAME", "arguments": ', f"}}\n{close}", between="\n", trigger=open)


def _listed(open: str, close: str = "", trigger: str = "") -> CallForm:
    return CallForm('{"name": "NAME", "arguments": ', "}", f"{open}[", ", ", f"]{close}", trigger)


_HERMES = _tagged("<tool_call>", "</tool_call>")
_JAMBA = _listed("<tool_calls>", "</tool_calls>", "<tool_calls>")
_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>", "<｜tool▁calls▁begin｜>")

FORMS: dict[str, CallForm] = {
    "hermes": _HERMES,
    "granite4": _HERMES,
    "ernie45": _HERMES,
    "longcat": _tagged("<longcat_tool_call>", "</longcat_tool_call>"),
    "jamba": _JAMBA,
    "hunyuan_a13b": _JAMBA,
    "internlm": CallForm(
        '<|action_start|><|plugin|>\n{"name": "NAME", "parameters": ',
        "}<|action_end|>",
        between="\n",
        trigger="<|action_start|><|plugin|>",
    ),
    "llama3_json": CallForm('{"name": "NAME", "parameters": ', "}", between="; "),
    "phi4_mini_json": _listed("functools", trigger="functools["),
    "granite": _listed("<|tool_call|>", trigger="<|tool_call|>"),
    "granite-20b-fc": CallForm(
        '<function_call> {"name": "NAME", "arguments": ', "}", between="\n", trigger="<function_call>"
    ),
    "mistral": _listed("[TOOL_CALLS]", trigger="[TOOL_CALLS]"),
    "xlam": _listed(""),
    "deepseek_v3": CallForm(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n", "\n```<｜tool▁call▁end｜>", *_DEEPSEEK
    ),
    "deepseek_v31": CallForm("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>", "<｜tool▁call▁end｜>", *_DEEPSEEK),
    "kimi_k2": CallForm(
        "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        before="<|tool_calls_section_begin|>",
        after="<|tool_calls_section_end|>",
        trigger="<|tool_calls_section_begin|>",
    ),
}
"""Name in a graph → the form of calls whose arguments are JSON."""

PLAIN = CallForm('{"name": "NAME", "parameters": ', "}", "[", ", ", "]")
"""The form of calls that must be made, for families without one."""

Tools = Sequence[dict[str, Any]]
Format = dict[str, Any]


def calls(form: CallForm, tools: Tools, *, parallel: bool = True) -> Format:
    """One call of one of the tools, or several, and nothing else."""
    tags = {
        "type": "tags_with_separator",
        "tags": [_call(form, tool["function"]) for tool in tools],
        "separator": form.between,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }
    around = [{"type": "const_string", "value": text} if text else None for text in (form.before, form.after)]
    elements = [each for each in (around[0], tags, around[1]) if each]
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def free_text(form: CallForm, tools: Tools, *, parallel: bool = True) -> Format:
    """Any text, in which calls are calls of the tools."""
    if form.before:
        inner = calls(CallForm(form.begin, form.end, between=form.between), tools, parallel=parallel)
        tags = [{"type": "tag", "begin": form.before, "content": inner, "end": form.after}]
    else:
        tags = [_call(form, tool["function"]) for tool in tools]
    return {
        "type": "triggered_tags",
        "triggers": [form.trigger],
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": not parallel,
    }


def arguments(function: dict[str, Any]) -> Format:
    """The arguments of one tool, by its declared parameters."""
    parameters = function.get("parameters")
    schema = NO_PARAMETERS if parameters is None else {"type": "object", **parameters}
    return {"type": "json_schema", "json_schema": schema}


def _call(form: CallForm, function: dict[str, Any]) -> Format:
    name = json.dumps(function["name"], ensure_ascii=False)[1:-1]
    return {
        "type": "tag",
        "begin": form.begin.replace("NAME", name),
        "content": arguments(function),
        "end": form.end,
    }
