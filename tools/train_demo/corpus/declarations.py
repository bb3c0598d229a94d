"""The tools of a conversation as it declares them: which kinds, their names, their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..conversation import Tool
from ..split import Draw, words
from .invention import made_up_word
from .strange_tools import VERBS as STRANGE_VERBS
from .strange_tools import strange_family
from .toolbox import FAMILIES, Family, Slot, Value

ALIKE = (  # kinds that are easily taken for one another
    ("weather", "time", "date"),
    ("email", "user"),
    ("stock", "convert", "order"),
    ("search", "music", "translate"),
    ("timer", "event", "date"),
    ("light", "music", "timer"),
    ("user", "order"),
    ("calculator", "convert"),
    ("time", "timer", "event"),
    ("weather", "stock", "timer"),
    ("weather", "stock"),
    ("user", "stock", "weather", "order"),
)
UNITS = ["celsius", "fahrenheit"]
WRAPPERS = words("input, params, request, options, data, args, body, filter, location", "payload, settings")
DIALECTS = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")
STYLES = {"plain": 10, "closed": 3, "zod": 4, "sdk": 4, "pydantic": 2}
"""Ways to write an object's schema, and how often; a held-out question of an older skill has no other."""
ALL_STYLES = STYLES | {"langchain": 5, "agents": 3, "sorted": 2}
AGENTS_ORDER = ("properties", "required", "title", "type", "additionalProperties")


class Declared(NamedTuple):
    """A family as one conversation declares it.

    `parameters` maps each slot to its drawn name, `options` some slots to the values that an enum
    allows; all parameters may stand inside an object called `wrapper`. Neither the name nor a description
    tells what an `obscure` one does.
    """

    family: Family
    name: str
    parameters: dict[str, str]
    options: dict[str, list[Value]]
    wrapper: str | None
    schema: Tool
    obscure: bool = False

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Of a call with these values."""
        return {self.wrapper: values} if self.wrapper else values


def choose_families(draw: Draw, never: tuple[str, ...] = ()) -> list[str]:
    """One to five kinds of tool, mostly one; the weather more often than others."""
    kinds = [kind for kind in FAMILIES if kind not in never]
    if not draw.held_out and draw.chance(0.3):
        return draw.some(alike := [kind for kind in draw.any(ALIKE) if kind not in never], len(alike))
    many = {1: 8, 2: 4, 3: 3, 4: 1, 5: 1} if draw.held_out else {1: 6, 2: 4, 3: 4, 4: 1.5, 5: 1.5}
    chosen = draw.some(kinds, draw.weighted(many))
    if "weather" not in chosen and draw.chance(0.15):
        chosen[0] = "weather"
    return chosen


def declare_kinds(
    draw: Draw, kinds: list[str], held_out_styles: Mapping[str, int] = STYLES
) -> list[Declared]:
    """The kinds' tools; in training some exist nowhere, and at most one is obscure, or all are usual."""
    families = [FAMILIES[kind] for kind in kinds]
    if draw.held_out or draw.chance(0.4):
        return [declare(draw, family, held_out_styles=held_out_styles, usual=True) for family in families]
    families = [strange_family(draw) if draw.chance(0.2) else family for family in families]
    obscure = draw.any(families) if draw.chance(0.15) else None
    return [declare(draw, family, family is obscure) for family in families]


def declare(
    draw: Draw,
    family: Family,
    obscure: bool = False,
    held_out_styles: Mapping[str, int] = STYLES,
    usual: bool = False,
) -> Declared:
    """A family's tool; the names of a `usual` one, and of a held-out question's, are words that fit."""
    usual = usual or draw.held_out
    parameters = {key: _parameter_name(draw, slot, usual) for key, slot in family.slots.items()}
    if len(set(parameters.values())) < len(parameters):
        return declare(draw, family, obscure, held_out_styles, usual)  # two parameters drew one name
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
    nameless = not usual and draw.chance(0.2)  # then only the description tells what it does
    name = _name_without_sense(draw) if nameless or obscure else _tool_name(draw, family, usual)
    function: dict[str, Any] = {"name": name}
    if not obscure and (nameless or draw.chance(0.85)):
        function["description"] = draw.any(family.purposes) + draw.any(["", "."])
    function["parameters"] = _schema_of(draw, properties, required, held_out_styles)
    if draw.chance(0.1):
        function["strict"] = True
    schema = {"type": "function", "function": function}
    return Declared(family, function["name"], parameters, options, wrapper, schema, obscure)


def _name_without_sense(draw: Draw) -> str:
    verb = draw.any(STRANGE_VERBS) if draw.chance(0.5) else made_up_word(draw)
    words_ = [verb, *(made_up_word(draw) for _ in range(draw.number(1, 2)))]
    return "_".join(words_[draw.chance(0.15) :])


def _options(draw: Draw, slot: Slot) -> list[Value]:
    """Different values that an enum of the slot allows."""
    return list(dict.fromkeys(slot.value(draw) for _ in range(draw.number(2, 5))))


def _wrapper_name(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(WRAPPERS)


def _schema_of(
    draw: Draw, properties: dict[str, Any], required: list[str], held_out_styles: Mapping[str, int]
) -> dict[str, Any]:
    """The object's schema, as people, zod, pydantic, the AI SDK, langchain or openai-agents write it."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    style = draw.weighted(held_out_styles if draw.held_out else ALL_STYLES)
    if style in ("closed", "zod", "sdk"):
        schema["additionalProperties"] = False
    if style == "zod":
        schema = {"$schema": draw.any(DIALECTS)} | schema
    if style == "sdk":
        schema["$schema"] = draw.any(DIALECTS)
    if style in ("pydantic", "agents"):
        titled = {
            name: {"title": name.replace("_", " ").title()} | value for name, value in properties.items()
        }
        schema = schema | {"properties": titled, "title": "Arguments"}
    if style == "agents":
        schema["additionalProperties"] = False
        schema = {key: schema[key] for key in AGENTS_ORDER if key in schema}
    if style == "sorted":
        schema["additionalProperties"] = False
    return dict(sorted(schema.items())) if style in ("sorted", "langchain") else schema


def _tool_name(draw: Draw, family: Family, usual: bool) -> str:
    """Mostly verb and noun, sometimes the noun alone, in camel or Pascal case, or with a strange word."""
    parts = [draw.of(family.nouns)]
    if draw.chance(0.8):
        parts.insert(0, draw.of(family.verbs))
    if not usual and draw.chance(0.5):
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


def _parameter_name(draw: Draw, slot: Slot, usual: bool) -> str:
    if not usual and draw.chance(0.25):
        return made_up_word(draw)
    return draw.of(slot.names)


def _property(draw: Draw, slot: Slot, options: list[Value] | None) -> dict[str, Any]:
    declared: dict[str, Any] = {"type": slot.kind}
    if options:
        declared["enum"] = options
    return declared | {"description": slot.meaning} if draw.chance(0.5) else declared
