"""Formats that restrict a reply to tool calls: the text around the JSON of the arguments, for each family.

The formats are xgrammar's structural tags.  Models of a family without a form of its own are restricted to
plain JSON, which has a reader of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.values.tasks import TEXT_ARGUMENT

NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
OPEN_KEYWORDS = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"}
"""Keywords of a schema that may declare properties beside `properties`."""


@dataclass(frozen=True)
class CallForm:
    """`before`, then calls with `between` them, then `after`.  A call is `begin`, its arguments, `end`.

    `begin` holds NAME for the tool's name, and a word of WRITTEN where models write a text of their own.
    `more` is a pattern of what may be between arguments and end.  `trigger` starts calls in free text, and
    nothing else; "" where an answer can start the same way.  There, calls may also have one of the forms of
    `variants`, which start with the same trigger: spaces, lines and ids, as other templates write them.
    """

    begin: str
    end: str
    before: str = ""
    between: str = ""
    after: str = ""
    trigger: str = ""
    more: str = ""
    variants: tuple[CallForm, ...] = ()


WRITTEN = {"INDEX": "[0-9]{1,3}", "IDENTIFIER": r"[A-Za-z0-9_\-]{1,64}"}
"""Word in the begin of a call → the pattern of what a model writes there."""
_ID = rf'(, "id": "{WRITTEN["IDENTIFIER"]}")?'
_CALL = '{"name": "NAME", "arguments": '
_ONE_LINE, _LINES, _INDENTED = ("[", ", ", "]"), ("[\n", ",\n", "\n]"), ("[\n    ", ",\n    ", "\n]")
_Layout = tuple[str, str, str]
"""How a list begins, what is between its items, how it ends."""


def _tagged(open: str, close: str) -> CallForm:
    one_line = CallForm(f"{open}{_CALL}", f"}}{close}")
    return CallForm(f"{open}\n{_CALL}", f"}}\n{close}", between="\n", trigger=open, variants=(one_line,))


def _listed(open: str, close: str = "", trigger: str = "", layout: _Layout = _ONE_LINE) -> CallForm:
    before, between, after = layout
    return CallForm(_CALL, "}", f"{open}{before}", between, f"{after}{close}", trigger)


def _laid_out(form: CallForm, *layouts: _Layout) -> CallForm:
    """A list of calls between two marks in the first of some layouts, or in another."""
    first, *others = (
        replace(form, before=form.trigger + before, between=between, after=after + form.after)
        for before, between, after in layouts
    )
    return replace(first, variants=tuple(others))


_HERMES = _tagged("<tool_call>", "</tool_call>")
_IN_TAGS = CallForm(_CALL, "}", after="</tool_calls>", trigger="<tool_calls>")
_COHERE = _laid_out(
    CallForm(
        '{"tool_call_id": "INDEX", "tool_name": "NAME", "parameters": ',
        "}",
        after="<|END_ACTION|>",
        trigger="<|START_ACTION|>",
    ),
    _INDENTED,
    _ONE_LINE,
)
_LLAMA = CallForm('{"name": "NAME", "parameters": ', "}", between="; ")
_MISTRAL = replace(_listed("[TOOL_CALLS]", trigger="[TOOL_CALLS]"), more=_ID)
_DEEPSEEK = CallForm(
    "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    before="<｜tool▁calls▁begin｜>",
    after="<｜tool▁calls▁end｜>",
    trigger="<｜tool▁calls▁begin｜>",
)

FORMS: dict[str, CallForm] = {
    "hermes": _HERMES,
    "granite4": _HERMES,
    "ernie45": _HERMES,
    "longcat": _tagged("<longcat_tool_call>", "</longcat_tool_call>"),
    "jamba": _laid_out(_IN_TAGS, _LINES, _ONE_LINE),
    "hunyuan_a13b": _laid_out(_IN_TAGS, _ONE_LINE, _LINES),
    "internlm": CallForm(
        '<|action_start|><|plugin|>\n{"name": "NAME", "parameters": ',
        "}<|action_end|>",
        between="\n",
        trigger="<|action_start|><|plugin|>",
    ),
    "llama3_json": _LLAMA,
    "llama4_json": _LLAMA,
    "phi4_mini_json": _listed("functools", trigger="functools["),
    "granite": _listed("<|tool_call|>", trigger="<|tool_call|>"),
    "granite-20b-fc": CallForm(
        '<function_call> {"name": "NAME", "arguments": ', "}", between="\n", trigger="<function_call>"
    ),
    "mistral": replace(
        _MISTRAL,
        variants=(
            CallForm("[TOOL_CALLS]NAME[ARGS]", ""),
            CallForm("[TOOL_CALLS]NAME", ""),
            CallForm("[TOOL_CALLS]NAME[CALL_ID]IDENTIFIER[ARGS]", ""),
            replace(_MISTRAL, before="[TOOL_CALLS] ["),
        ),
    ),
    "xlam": _listed(""),
    "deepseek_v3": replace(
        _DEEPSEEK,
        begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n",
        end="\n```<｜tool▁call▁end｜>",
        between="\n",
    ),
    "deepseek_v31": _DEEPSEEK,
    "kimi_k2": CallForm(
        "<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        before="<|tool_calls_section_begin|>",
        after="<|tool_calls_section_end|>",
        trigger="<|tool_calls_section_begin|>",
    ),
    "cohere_command3": _COHERE,
    "cohere_command4": _COHERE,
    "command_r": CallForm('{"tool_name": "NAME", "parameters": ', "}", "Action:\n```json\n[", ", ", "]\n```"),
    "apriel": replace(_laid_out(_IN_TAGS, _ONE_LINE), more=_ID),
    "nemotron_json": _listed("<TOOLCALL>", "</TOOLCALL>", "<TOOLCALL>"),
    "minimax": CallForm(
        '{"name": "NAME", "arguments": ', "}", "<tool_calls>\n", "\n", "\n</tool_calls>", "<tool_calls>"
    ),
    "gigachat3": CallForm('function call<|role_sep|>\n{"name": "NAME", "arguments": ', "}", between="\n"),
    "gigachat31": CallForm(
        '<|function_call|>{"name": "NAME", "arguments": ', "}", between="\n", trigger="<|function_call|>"
    ),
    "functionary_v31": CallForm("<function=NAME>", "</function>", between="\n", trigger="<function="),
    "apertus": CallForm('{"NAME": ', "}", "<|tools_prefix|>[", ", ", "]<|tools_suffix|>", "<|tools_prefix|>"),
}
"""Name in a graph → the form of calls whose arguments are JSON."""

GENERIC = CallForm('{"name": "NAME", "arguments": ', "}", '{"tool_calls": [', ", ", "]}")
"""The form of calls of models whose replies are objects."""
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
    elements = [element for element in (around[0], tags, around[1]) if element]
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def response() -> Format:
    """The answer of a model whose replies are objects."""
    text = {"type": "json_schema", "json_schema": {"type": "string"}}
    around = [{"type": "const_string", "value": value} for value in ('{"response": ', "}")]
    return {"type": "sequence", "elements": [around[0], text, around[1]]}


def after_trigger(form: CallForm, tools: Tools, *, parallel: bool = True) -> Format:
    """What follows the trigger in free text: the rest of a call, or of a block of calls."""
    rests = [_without_trigger(each, form.trigger) for each in (form, *form.variants)]
    elements = [calls(rest, tools, parallel=parallel and bool(rest.after)) for rest in rests]
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": elements}


def _without_trigger(form: CallForm, trigger: str) -> CallForm:
    if form.before:
        return replace(form, before=form.before.removeprefix(trigger))
    return replace(form, begin=form.begin.removeprefix(trigger))


def arguments(function: dict[str, Any]) -> Format:
    """The arguments of one tool: an object of its declared parameters, others where its schema says so.

    A tool with a `text_format` takes one text, which that holds.
    """
    if function.get("text_format") is not None:
        return _text_argument(function["text_format"])
    parameters = function.get("parameters")
    if parameters is None:
        return {"type": "json_schema", "json_schema": NO_PARAMETERS}
    parameters = {k: v for k, v in parameters.items() if v is not None and k != "nullable"}
    others = {"additionalProperties": False} if _declares_all(parameters) else {}
    return {"type": "json_schema", "json_schema": {**others, **parameters, "type": "object"}}


def _text_argument(format: Format) -> Format:
    around = [
        {"type": "regex", "pattern": rf'\{{ ?"{TEXT_ARGUMENT}": ?"'},
        {"type": "regex", "pattern": '" ?\\}'},
    ]
    return {"type": "sequence", "elements": [around[0], format, around[1]]}


def _declares_all(parameters: dict[str, Any]) -> bool:
    """Whether `properties` has every parameter that a schema speaks of."""
    properties, required = parameters.get("properties"), parameters.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return not OPEN_KEYWORDS & parameters.keys() and all(str(name) in properties for name in required)


def _call(form: CallForm, function: dict[str, Any]) -> Format:
    name = json.dumps(function["name"], ensure_ascii=False)[1:-1]
    word = next((word for word in WRITTEN if word in form.begin), "")
    begin, rest = form.begin.split(word) if word else (form.begin, "")
    elements = [
        word and {"type": "regex", "pattern": WRITTEN[word]},
        rest and {"type": "const_string", "value": rest.replace("NAME", name)},
        arguments(function),
        form.more and {"type": "regex", "pattern": form.more},
    ]
    elements = [element for element in elements if element]
    content = elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}
    return {"type": "tag", "begin": begin.replace("NAME", name), "content": content, "end": form.end}
