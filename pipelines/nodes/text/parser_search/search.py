"""Finds the parsers of a chat template: those that read what the template itself writes.

A template shows a model's format in earlier replies, where the next reply begins, in what it removes from
earlier replies, and in its instructions to the model.  Where several parsers read the same, the one that
leaves the least text is used, and a pair of one family before others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.nodes.text.parsers.guards import find_guard
from pipelines.nodes.text.parsers.reasoning.families import ENCLOSED
from pipelines.nodes.text.parsers.tables import REASONING, SPANS, TOOLS
from pipelines.nodes.text.parsers.tools import families
from pipelines.nodes.text.templates import trials
from pipelines.nodes.text.templates.jinja_template import ChatTemplateError
from pipelines.nodes.text.templates.trials import (
    ANSWER,
    CALLED,
    CITIES,
    FUNCTION,
    OPTIONS,
    THOUGHT,
    Trials,
    WrittenReply,
)

SHOWN_CHARS = 80
TOOL_PHRASES: dict[str, tuple[str, ...]] = {
    "kimi_k2": ("<|im_system|>tool_declare<|im_middle|>",),
    "lfm2": ("<|tool_list_start|>", "List of tools: ["),
    "llama3_json": ('{"name": function name, "parameters": dictionary of argument name',),
    "phi4_mini_json": ("functools[",),
    "pythonic": ("[func_name1(",),
}
"""Parser → texts by which a prompt with tools shows it, beside the markers of its calls."""
THINKING_PHRASES = {"apertus": ("Deliberation: enabled",), "apriel": ("[BEGIN FINAL RESPONSE]",)}
"""Parser of reasoning → texts by which a prompt shows it."""
MARKERS = {name: marked for name in REASONING if (marked := SPANS[name](""))}
"""Parser → the markers of reasoning."""
PARTNERS = {"deepseek_v31": "deepseek_v3", "deepseek_v32": "deepseek_v3", "deepseek_v4": "deepseek_v3"}
"""Parser of calls → that of reasoning of the same models, where the names differ."""


@dataclass(frozen=True)
class Found:
    """The parsers of a template, None where there is none, and what a person should know of that."""

    reasoning: str | None = None
    tools: str | None = None
    guard: str | None = None
    notes: tuple[str, ...] = ()


def find_parsers(source: str, tool_use: str | None = None) -> Found:
    """The parsers of a model with this template, and perhaps one for conversations with tools."""
    try:
        tried = Trials(source, tool_use)
    except ChatTemplateError as error:
        return Found(notes=(f"chat template: {error}",))
    tools, tools_note = _find_tools(tried)
    reasoning, reasoning_note = _find_reasoning(tried)
    notes = tuple(note for note in (tools_note, reasoning_note) if note)
    return Found(*_pair(reasoning, tools), find_guard(source), notes)


def outcome(job: list[str]) -> dict[str, Any]:
    """What is found for the arguments of `find_parsers`, as JSON: the work of a process with bounds."""
    return asdict(find_parsers(*job))


def _pair(reasoning: list[str], tools: list[str]) -> tuple[str | None, str | None]:
    """One of each: a pair of one family, else the first ones."""
    for name in tools:
        if (partner := PARTNERS.get(name, name)) in reasoning:
            return partner, name
    return next(iter(reasoning), None), next(iter(tools), None)


def _find_tools(tried: Trials) -> tuple[list[str], str]:
    """The parsers that read the template's calls equally well, and a note where there is none."""
    shown = ""
    for count in (2, 1):
        reply = tried.calling(count)
        if reply and FUNCTION in reply.text and CITIES[count - 1] in reply.text:
            shown = reply.text
            if parsers := _best({name: _left_by_tools(name, shown, count) for name in TOOLS}):
                return parsers, ""
    if shown:
        return [], (
            f"no parser of tool calls reads what the chat template writes, {shown[:SHOWN_CHARS]!r}: "
            "requests with tools are refused"
        )
    return _instructed_tools(tried)


def _left_by_tools(name: str, text: str, count: int) -> int | None:
    """How much of a text is content to a parser that finds the calls in it; None where it does not."""
    content, pieces = TOOLS[name](trials.TOOLS).push(text, final=True)
    calls: list[list[str]] = []
    for piece in pieces:
        if piece.name is not None:
            calls.append([piece.name, ""])
        calls[-1][1] += piece.arguments
    try:
        read = [(called, json.loads(arguments)) for called, arguments in calls]
    except ValueError:
        return None
    return len(content) if read == [(FUNCTION, arguments) for arguments in CALLED[:count]] else None


def _instructed_tools(tried: Trials) -> tuple[list[str], str]:
    """The parsers whose markers are in the instructions about tools, where the template writes no calls."""
    prompt, without = tried.begun(tools=True), tried.begun()
    scores = {name: -_score(marks, prompt, without) for name in TOOLS for marks in [_marks(name)]}
    if parsers := _best({name: score or None for name, score in scores.items()}):
        return parsers[:1], ""
    if not prompt + without:
        return [], "the chat template refuses every conversation, so nothing shows the model's format"
    if FUNCTION not in prompt:
        return [], ""
    return [], (
        "the chat template does not show how the model writes tool calls: requests with tools are refused "
        "unless `parse_reply` names a parser"
    )


def _marks(name: str) -> list[tuple[str, ...]]:
    blocks = [(each.open, each.close) for each in families.FAMILIES[name].blocks if not each.bare]
    return [*blocks, *((each,) for each in TOOL_PHRASES.get(name, ()))]


def _score(marks: Iterable[tuple[str, ...]], prompt: str, without: str = "") -> int:
    """The characters of the longest of some groups of marks that are all in a prompt, and were not before."""
    shown = (
        sum(map(len, each))
        for each in marks
        if all(mark in prompt for mark in each) and each[0] not in without
    )
    return max(shown, default=0)


def _find_reasoning(tried: Trials) -> tuple[list[str], str]:
    """The parsers that read the template's reasoning equally well, and a note where there is none."""
    prompts = [tried.begun(options, tools=tools) for options in OPTIONS for tools in (False, True)]
    plain = tried.answering()
    written = "\n".join([*prompts, plain.text if plain else ""])
    names = [name for name in REASONING if name not in ENCLOSED or ENCLOSED[name][1][0] in written]
    shown = ""
    for reply in _thoughtful(tried):
        shown = shown or reply.text
        if parsers := _best({name: _left_by_reasoning(name, reply) for name in names}):
            return parsers, ""
    parsers = _cut(tried) or _opened([*prompts, *_before_answer(plain)]) or _instructed_reasoning(written)
    if parsers or not shown:
        return parsers, ""
    return [], (
        f"no parser of reasoning reads what the chat template writes, {shown[:SHOWN_CHARS]!r}: "
        "reasoning is part of the answer"
    )


def _thoughtful(tried: Trials) -> Iterable[WrittenReply]:
    """The replies in which the template shows their reasoning."""
    for options in OPTIONS:
        for reply in (tried.answering(THOUGHT, options), tried.calling(1, THOUGHT, options)):
            if reply and THOUGHT in reply.text:
                yield reply


def _before_answer(reply: WrittenReply | None) -> list[str]:
    """What a template writes between the prompt and an answer without reasoning: perhaps an empty one."""
    return [reply.prompt + reply.text.partition(ANSWER)[0]] if reply and ANSWER in reply.text else []


def _left_by_reasoning(name: str, reply: WrittenReply) -> int | None:
    """How much of a reply is content to a parser that finds its reasoning; None where it does not."""
    reasoning, content = REASONING[name](reply.prompt, "held").push(reply.text, final=True)
    return len(content) if reasoning.strip() == THOUGHT else None


def _opened(prompts: Sequence[str]) -> list[str]:
    """The parsers whose markers end the text with which replies begin."""
    marks = {name: (each.start, each.end) for name, each in MARKERS.items() if name not in ENCLOSED}
    return [name for name, ends in marks.items() if any(each.rstrip().endswith(ends) for each in prompts)]


def _cut(tried: Trials) -> list[str]:
    """The parsers whose markers make the template remove the text between them from earlier replies."""
    if THOUGHT not in tried.earlier(f"{THOUGHT} {ANSWER}"):
        return []
    return _best({name: _cut_by(tried, name) for name in REASONING})


def _cut_by(tried: Trials, name: str) -> int | None:
    """Minus the characters of the markers, None where the template does not remove all of that."""
    around = ENCLOSED[name][1] if name in ENCLOSED else ("", "")
    start, end = MARKERS[name].start, MARKERS[name].end
    left = tried.earlier(f"{start}{THOUGHT}{end}{around[0]}{ANSWER}{around[1]}")
    removed = (THOUGHT, end, *filter(None, around))
    cut = ANSWER in left and not any(each in left for each in removed)
    return -len(start + end + "".join(around)) if cut else None


def _instructed_reasoning(written: str) -> list[str]:
    """The parsers whose markers are in the instructions of the prompt."""
    scores = {name: -_score(_thought_marks(name), written) for name in REASONING}
    return _best({name: score or None for name, score in scores.items()})


def _thought_marks(name: str) -> list[tuple[str, ...]]:
    around = ENCLOSED[name][1] if name in ENCLOSED else ()
    return [
        (MARKERS[name].start, MARKERS[name].end, *around),
        *((each,) for each in THINKING_PHRASES.get(name, ())),
    ]


def _best(scores: Mapping[str, int | None]) -> list[str]:
    """The names with the lowest score."""
    known = {name: score for name, score in scores.items() if score is not None}
    return [name for name, score in known.items() if score == min(known.values())]
