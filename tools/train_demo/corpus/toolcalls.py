"""Conversations with declared tools: calling one or two, answering from a result, or not calling."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..conversation import Conversation, Expectation, Message, Tool, Turn, contains
from ..split import Draw, phrasings, words
from .invention import made_up_word
from .responses import unusual_response
from .strange_tools import strange_family
from .toolbox import FAMILIES, Family, Slot, Value, Values

ANSWERING = "The tool has answered. I tell the user."
NEEDED_BY_TURNS = ("translate", "search", "calculator")  # kinds of tools that ordinary turns may need
NO_TOOL = "I do not have a tool for that."
UNITS = ["celsius", "fahrenheit"]
WRAPPERS = words("input, params, request, options, data, args, body, filter, location", "payload, settings")
DIALECTS = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")
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


class Declared(NamedTuple):
    """A family as one conversation declares it.

    `parameters` maps each slot to its drawn name, `options` some slots to the values that an enum
    allows; all parameters may stand inside an object called `wrapper`.
    """

    family: Family
    name: str
    parameters: dict[str, str]
    options: dict[str, list[Value]]
    wrapper: str | None
    schema: Tool


class Request(NamedTuple):
    """What the user asks of a declared tool and the call that it needs."""

    question: str
    call: dict[str, Any]
    values: Values
    thought: str


def tool_call(draw: Draw) -> Conversation:
    """A question that needs one of the declared tools."""
    return _called(draw, _declared(draw, _choose_families(draw)))


def _called(draw: Draw, declared: list[Declared]) -> Conversation:
    wanted = draw.any(declared)
    request = _request(draw, wanted)
    return _calling("tool_call", request.question, [request.call], declared, request.thought)


def two_tool_calls(draw: Draw) -> Conversation:
    """A question about two cities, which needs the same tool twice."""
    kind = draw.any(["weather", "time"])
    declared = _declare(draw, FAMILIES[kind])
    places = [_request(draw, declared).values["city"] for _ in range(2)]
    question = draw.phrase(TWO_CITIES, what=kind, a=places[0], b=places[1])
    arguments = [{declared.parameters["city"]: place} for place in places]
    calls = [{"name": declared.name, "arguments": _wrapped(declared, values)} for values in arguments]
    thought = f"The user asks about {places[0]} and {places[1]}. I call {declared.name} twice."
    return _calling("tool_call", question, calls, [declared], thought)


def tool_answer(draw: Draw) -> Conversation:
    """A call, the tool's response, and a sentence that uses it."""
    return _answered(draw, _declared(draw, _choose_families(draw)))


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
    declared = _declared(draw, _choose_families(draw))
    messages: list[Message] = []
    for _ in range(draw.number(2, 3)):
        wanted = draw.any(declared)
        request = _request(draw, wanted)
        response, answer, expect = _respond(draw, wanted, request)
        messages += [
            {"role": "user", "content": request.question},
            _call_message(request.thought, [request.call]),
            {"role": "tool", "content": response},
            {"role": "assistant", "content": answer, "reasoning_content": ANSWERING},
        ]
    if draw.chance(0.6):
        messages, expect = messages[:-2], Expectation("calls", [request.call])
    return Conversation("tool_dialogue", messages, expect, [tool.schema for tool in declared])


def tool_declined(draw: Draw, turn: Turn) -> Conversation:
    """An ordinary turn while tools are declared that it does not need."""
    return _declined(turn, _declared(draw, _choose_families(draw, never=NEEDED_BY_TURNS)))


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
    return _missing(draw, wanted, _declared(draw, others))


def _missing(draw: Draw, wanted: str, declared: list[Declared]) -> Conversation:
    request = _request(draw, _declare(draw, FAMILIES[wanted]))
    messages = [
        {"role": "user", "content": request.question},
        {"role": "assistant", "content": NO_TOOL, "reasoning_content": "None of the tools can do this."},
    ]
    expect = contains("do not have a tool")
    return Conversation("tool_missing", messages, expect, [tool.schema for tool in declared])


def with_the_same_tools(draw: Draw, ordinary: Callable[[Draw], Turn]) -> list[Conversation]:
    """Several for one declaration: calls, answers, requests that no tool can do, `ordinary` turns."""
    kinds = _choose_families(draw)
    declared = _declared(draw, kinds)
    others = [kind for kind in FAMILIES if kind not in {*kinds, "search"}]
    weights = {"call": 7.0, "answer": 1.0, "missing": 3.0 * ("search" not in kinds)}
    weights["declined"] = 1.5 * (not {*kinds} & {*NEEDED_BY_TURNS})
    make: dict[str, Callable[[], Conversation]] = {
        "call": lambda: _called(draw, declared),
        "answer": lambda: _answered(draw, declared),
        "missing": lambda: _missing(draw, draw.any(others), declared),
        "declined": lambda: _declined(ordinary(draw), declared),
    }
    return [make[draw.weighted(weights)]() for _ in range(draw.number(3, 5))]


def _choose_families(draw: Draw, never: tuple[str, ...] = ()) -> list[str]:
    """One to five kinds of tool, mostly one; the weather more often than others."""
    kinds = [kind for kind in FAMILIES if kind not in never]
    chosen = draw.some(kinds, draw.weighted({1: 8, 2: 4, 3: 3, 4: 1, 5: 1}))
    if "weather" not in chosen and draw.chance(0.15):
        chosen[0] = "weather"
    return chosen


def _declared(draw: Draw, kinds: list[str]) -> list[Declared]:
    """The kinds' tools; in training some are tools that exist nowhere."""
    families = [FAMILIES[kind] for kind in kinds]
    if not draw.held_out:
        families = [strange_family(draw) if draw.chance(0.2) else family for family in families]
    return [_declare(draw, family) for family in families]


def _declare(draw: Draw, family: Family) -> Declared:
    parameters = {key: _parameter_name(draw, slot) for key, slot in family.slots.items()}
    if len(set(parameters.values())) < len(parameters):
        return _declare(draw, family)  # two parameters drew one name
    options = {key: _options(draw, slot) for key, slot in family.slots.items() if draw.chance(0.1)}
    properties: dict[str, Any] = {
        parameters[key]: _property(draw, slot, options.get(key)) for key, slot in family.slots.items()
    }
    if family is FAMILIES["weather"] and draw.chance(0.3):
        properties["unit"] = {"type": "string", "enum": UNITS}
    required = list(parameters.values()) if draw.chance(0.85) else []
    wrapper = _wrapper_name(draw) if properties and draw.chance(0.1) else None
    if wrapper:
        inner: dict[str, Any] = {"type": "object", "properties": properties}
        properties = {wrapper: inner | ({"required": required} if required else {})}
        required = [wrapper]
    nameless = not draw.held_out and draw.chance(0.12)  # then only the description tells what it does
    name = f"{made_up_word(draw)}_{made_up_word(draw)}" if nameless else _tool_name(draw, family)
    function: dict[str, Any] = {"name": name}
    if nameless or draw.chance(0.85):
        function["description"] = draw.any(family.purposes) + draw.any(["", "."])
    function["parameters"] = schema_of(draw, properties, required)
    if draw.chance(0.1):
        function["strict"] = True
    schema = {"type": "function", "function": function}
    return Declared(family, function["name"], parameters, options, wrapper, schema)


def _options(draw: Draw, slot: Slot) -> list[Value]:
    """Different values that an enum of the slot allows."""
    return list(dict.fromkeys(slot.value(draw) for _ in range(draw.number(2, 5))))


def _wrapper_name(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(WRAPPERS)


def _wrapped(declared: Declared, arguments: dict[str, Any]) -> dict[str, Any]:
    return {declared.wrapper: arguments} if declared.wrapper else arguments


def schema_of(draw: Draw, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The object's schema, as people, zod, the AI SDK or pydantic write it."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    style = draw.weighted({"plain": 10, "closed": 3, "zod": 4, "sdk": 4, "pydantic": 2})
    if style in ("closed", "zod", "sdk"):
        schema["additionalProperties"] = False
    if style == "zod":
        schema = {"$schema": draw.any(DIALECTS)} | schema
    if style == "sdk":
        schema["$schema"] = draw.any(DIALECTS)
    if style == "pydantic":
        titled = {
            name: {"title": name.replace("_", " ").title()} | value for name, value in properties.items()
        }
        schema = schema | {"properties": titled, "title": "Arguments"}
    return schema


def _tool_name(draw: Draw, family: Family) -> str:
    """Mostly verb and noun, sometimes the noun alone, in camel or Pascal case, or with a strange word."""
    parts = [draw.of(family.nouns)]
    if draw.chance(0.8):
        parts.insert(0, draw.of(family.verbs))
    if not draw.held_out and draw.chance(0.5):
        place = draw.number(0, len(parts))
        parts.insert(place, draw.any(["v2", "tool", "api", "now", *(made_up_word(draw) for _ in range(8))]))
    name = "_".join(parts)
    if draw.chance(0.12 if draw.held_out else 0.25):
        name = _camel_case(name)
        return name[0].upper() + name[1:] if not draw.held_out and draw.chance(0.5) else name
    return name


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _parameter_name(draw: Draw, slot: Slot) -> str:
    if not draw.held_out and draw.chance(0.25):
        return made_up_word(draw)
    return draw.of(slot.names)


def _property(draw: Draw, slot: Slot, options: list[Value] | None) -> dict[str, Any]:
    declared: dict[str, Any] = {"type": slot.kind}
    if options:
        declared["enum"] = options
    return declared | {"description": slot.meaning} if draw.chance(0.5) else declared


def _request(draw: Draw, declared: Declared) -> Request:
    values: Values = {
        key: draw.any(declared.options[key]) if key in declared.options else slot.value(draw)
        for key, slot in declared.family.slots.items()
    }
    question = draw.phrase(declared.family.asked, **values)
    arguments: dict[str, Value] = {declared.parameters[key]: value for key, value in values.items()}
    properties = declared.schema["function"]["parameters"]["properties"]
    if declared.wrapper:
        properties = properties[declared.wrapper]["properties"]
    if "unit" in properties and "unit" not in arguments and draw.chance(0.5):
        arguments["unit"] = draw.any(UNITS)
        question = f"{question[:-1]} in {arguments['unit']}{question[-1]}"
    told = ", ".join(f"{key} is {value}" for key, value in arguments.items())
    thought = f"The tool {declared.name} can do this." + (f" {told}." if told else "")
    call = {"name": declared.name, "arguments": _wrapped(declared, arguments)}
    return Request(question, call, values, thought)


def _respond(draw: Draw, declared: Declared, request: Request) -> tuple[str, str, Expectation]:
    """What the tool says, as JSON, as words or as an error, and what the model makes of it."""
    if draw.chance(0.3):
        return unusual_response(draw)
    result = declared.family.result(draw)
    answer = declared.family.answer.format(**request.values, **result)
    facts = map(str, (request.values | result).values())
    expect = contains(*(fact for fact in facts if fact in answer))
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
