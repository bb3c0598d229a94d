"""Conversations with declared tools: calling one or two, answering from a result, or not calling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..conversation import Conversation, Expectation, Message, Turn, contains
from ..split import Draw, phrasings
from .declarations import ALL_STYLES, UNITS, Declared, choose_families, declare, declare_kinds
from .responses import unusual_response
from .toolbox import FAMILIES, Value, Values

ANSWERING = "The tool has answered. I tell the user."
NEEDED_BY_TURNS = ("translate", "search", "calculator")  # kinds of tools that ordinary turns may need
NO_TOOL = "I do not have a tool for that."
NUM_EARLIER = {0: 5, 1: 2.5, 2: 1.2, 3: 0.9, 4: 0.4}
"""How many questions of a conversation the tools have already answered, and how often."""
TWO_CITIES = phrasings("""
    What is the {what} in {a} and {b}?
    What's the {what} in {a} and {b}?
    Tell me the {what} in {a} and {b}.
    Tell me the {what} in {a} and in {b}.
    The {what} in {a} and in {b}?
    {what} in {a} and {b}?
    Give me the {what} in {a} and {b}.
    * What is the {what} in {a} and in {b}?
    * Please tell me the {what} in {a} and {b}.
""")


Habits = dict[str, str]
"""How a user always asks for a tool: its name → the phrasing."""


class Request(NamedTuple):
    """What the user asks of a declared tool and the call that it needs."""

    question: str
    call: dict[str, Any]
    values: Values
    thought: str


class Round(NamedTuple):
    """A question with its call, the tool's response and the answer."""

    request: Request
    messages: list[Message]
    expect: Expectation


def tool_call(draw: Draw) -> Conversation:
    """A question that needs one of the declared tools."""
    return _called(draw, declare_kinds(draw, choose_families(draw)))


def _called(draw: Draw, declared: list[Declared], habits: Habits | None = None) -> Conversation:
    wanted = draw.any(declared)
    request = _request(draw, wanted, habits)
    return _calling("tool_call", request.question, [request.call], declared, request.thought)


def two_tool_calls(draw: Draw) -> Conversation:
    """A question about two cities, which needs the same tool twice."""
    kind = draw.any(["weather", "time"])
    declared = declare(draw, FAMILIES[kind])
    places = [_request(draw, declared).values["city"] for _ in range(2)]
    question = draw.phrase(TWO_CITIES, what=kind, a=places[0], b=places[1])
    arguments = [{declared.parameters["city"]: place} for place in places]
    calls = [{"name": declared.name, "arguments": declared.arguments(values)} for values in arguments]
    thought = f"The user asks about {places[0]} and {places[1]}. I call {declared.name} twice."
    return _calling("tool_call", question, calls, [declared], thought)


def tool_answer(draw: Draw) -> Conversation:
    """A call, the tool's response, and a sentence that uses it."""
    return _answered(draw, declare_kinds(draw, choose_families(draw)))


def _answered(draw: Draw, declared: list[Declared]) -> Conversation:
    wanted = draw.any(declared)
    request = _request(draw, wanted)
    response, answer, expect = _respond(draw, wanted, request)
    messages = [
        {"role": "user", "content": request.question},
        _call_message("", [request.call]),
        {"role": "tool", "content": response},
        {"role": "assistant", "content": answer, "reasoning_content": ANSWERING},
    ]
    return Conversation("tool_answer", messages, expect, [tool.schema for tool in declared])


def tool_dialogue(draw: Draw) -> Conversation:
    """Two or three questions, each with its call, response and answer; the last may end at the call."""
    declared = declare_kinds(draw, choose_families(draw))
    rounds = [_round(draw, draw.any(declared)) for _ in range(draw.number(2, 3))]
    messages = [message for one in rounds for message in one.messages]
    expect = rounds[-1].expect
    if draw.chance(0.6):
        messages, expect = messages[:-2], Expectation("calls", [rounds[-1].request.call])
    return Conversation("tool_dialogue", messages, expect, [tool.schema for tool in declared])


def tool_again(draw: Draw) -> Conversation:
    """One to four answered questions to mostly one tool, then another that needs its call again."""
    declared = declare_kinds(draw, choose_families(draw), ALL_STYLES)
    favourite, habits = draw.any(declared), _habits(draw, declared)
    earlier = _earlier(draw, declared, favourite, draw.number(1, 4), habits)
    request = _request(draw, favourite, habits)
    last = _calling("tool_again", request.question, [request.call], declared, request.thought)
    last.messages[:0] = earlier
    return last


def _earlier(
    draw: Draw, declared: list[Declared], favourite: Declared, count: int, habits: Habits
) -> list[Message]:
    """The messages of `count` rounds, most of them with one tool."""
    asked = [favourite if draw.chance(0.7) else draw.any(declared) for _ in range(count)]
    return [message for tool in asked for message in _round(draw, tool, habits).messages]


def _habits(draw: Draw, declared: list[Declared]) -> Habits:
    """Of half of the users."""
    return {tool.name: draw.phrasing(tool.family.asked) for tool in declared} if draw.chance(0.5) else {}


def _round(draw: Draw, wanted: Declared, habits: Habits | None = None) -> Round:
    request = _request(draw, wanted, habits)
    response, answer, expect = _respond(draw, wanted, request)
    messages = [
        {"role": "user", "content": request.question},
        _call_message(request.thought, [request.call]),
        {"role": "tool", "content": response},
        {"role": "assistant", "content": answer, "reasoning_content": ANSWERING},
    ]
    return Round(request, messages, expect)


def tool_declined(draw: Draw, turn: Turn) -> Conversation:
    """An ordinary turn while tools are declared that it does not need."""
    return _declined(turn, declare_kinds(draw, choose_families(draw, never=NEEDED_BY_TURNS)))


def _declined(turn: Turn, declared: list[Declared]) -> Conversation:
    thought = f"No tool is needed. {turn.reasoning}"
    messages = [
        {"role": "user", "content": turn.question},
        {"role": "assistant", "content": turn.answer, "reasoning_content": thought},
    ]
    return Conversation("tool_declined", messages, turn.expect, [tool.schema for tool in declared])


def tool_missing(draw: Draw) -> Conversation:
    """A request for something that none of the declared tools can do."""
    most = 3 if draw.held_out else 5
    wanted, *others = draw.some([kind for kind in FAMILIES if kind != "search"], draw.number(2, most))
    declared = declare_kinds(draw, others)
    return tool_missing(draw) if any(tool.obscure for tool in declared) else _missing(draw, wanted, declared)


def _missing(draw: Draw, wanted: str, declared: list[Declared]) -> Conversation:
    request = _request(draw, declare(draw, FAMILIES[wanted]))
    messages = [
        {"role": "user", "content": request.question},
        {"role": "assistant", "content": NO_TOOL, "reasoning_content": "None of the tools can do this."},
    ]
    expect = contains("do not have a tool")
    return Conversation("tool_missing", messages, expect, [tool.schema for tool in declared])


def with_the_same_tools(draw: Draw, ordinary: Callable[[Draw], Turn]) -> list[Conversation]:
    """Several for one declaration: calls, answers, requests that no tool can do, `ordinary` turns.

    Half of the time all of them come after the same questions, which the tools have answered.
    """
    kinds = choose_families(draw)
    declared = declare_kinds(draw, kinds)
    habits = _habits(draw, declared)
    others = [kind for kind in FAMILIES if kind not in {*kinds, "search"}]
    clear = "search" not in kinds and not any(tool.obscure for tool in declared)
    weights = {"call": 7.0, "answer": 1.0, "missing": 3.0 * clear}
    weights["declined"] = 1.5 * (not {*kinds} & {*NEEDED_BY_TURNS})
    make: dict[str, Callable[[], Conversation]] = {
        "call": lambda: _called(draw, declared, habits),
        "answer": lambda: _answered(draw, declared),
        "missing": lambda: _missing(draw, draw.any(others), declared),
        "declined": lambda: _declined(ordinary(draw), declared),
    }
    earlier = _earlier(draw, declared, draw.any(declared), draw.weighted(NUM_EARLIER), habits)
    if earlier and weights["declined"] and draw.chance(0.2):
        earlier += _declined(ordinary(draw), declared).messages
    group = [make[draw.weighted(weights)]() for _ in range(draw.number(3, 5))]
    for conversation in group:
        conversation.messages[:0] = earlier
    return group


def _request(draw: Draw, declared: Declared, habits: Habits | None = None) -> Request:
    values: Values = {
        key: draw.any(declared.options[key]) if key in declared.options else slot.value(draw)
        for key, slot in declared.family.slots.items()
    }
    phrasing = (habits or {}).get(declared.name) or draw.phrasing(declared.family.asked)
    question = phrasing.format(**values)
    arguments: dict[str, Value] = {declared.parameters[key]: value for key, value in values.items()}
    properties = declared.schema["function"]["parameters"]["properties"]
    if declared.wrapper:
        properties = properties[declared.wrapper]["properties"]
    if "unit" in properties and "unit" not in arguments and draw.chance(0.5):
        arguments["unit"] = draw.any(UNITS)
        question = f"{question[:-1]} in {arguments['unit']}{question[-1]}"
    told = ", ".join(f"{key} is {value}" for key, value in arguments.items())
    thought = f"The tool {declared.name} can do this." + (f" {told}." if told else "")
    call = {"name": declared.name, "arguments": declared.arguments(arguments)}
    return Request(question, call, values, thought)


def _respond(draw: Draw, declared: Declared, request: Request) -> tuple[str, str, Expectation]:
    """What the tool says, as JSON, as words or as an error, and what the model makes of it."""
    if draw.chance(0.3):
        return unusual_response(draw)
    result = declared.family.result(draw)
    answer = declared.family.answer.format(**request.values, **result)
    facts = map(str, (request.values | result).values())
    expect = contains(*(fact for fact in facts if re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", answer)))
    if draw.chance(0.2):
        return answer, answer, expect
    told = result | {key: value for key, value in request.values.items() if draw.chance(0.3)}
    keys = draw.some(list(told), len(told))
    return json.dumps({key: told[key] for key in keys}, ensure_ascii=False), answer, expect


def _calling(
    skill: str,
    question: str,
    calls: list[dict[str, Any]],
    declared: list[Declared],
    thought: str,
) -> Conversation:
    messages = [{"role": "user", "content": question}, _call_message(thought, calls)]
    return Conversation(skill, messages, Expectation("calls", calls), [tool.schema for tool in declared])


def _call_message(thought: str, calls: list[dict[str, Any]]) -> Message:
    return {
        "role": "assistant",
        "content": "",
        "reasoning_content": thought,
        "tool_calls": [{"type": "function", "function": call} for call in calls],
    }
