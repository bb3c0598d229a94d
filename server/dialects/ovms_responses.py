"""OpenVINO Model Server's validation rules for Responses bodies, with its error texts."""

from __future__ import annotations

from typing import Any

from server.dialects.ovms import TOOLS, uint32
from server.dialects.rules import Rule, instance, text


def _is_message(item: Any) -> bool:
    """Whether an input item is a message; an item with only an id is a reference."""
    kind = item.get("type")
    return kind == "message" or (kind is None and ("role" in item or "id" not in item))


def _items(which: Any, holds: Any) -> Any:
    """A test that `holds` is true for every input item that `which` selects."""
    return lambda value: isinstance(value, str) or all(holds(item) for item in value if which(item))


def _parts(holds: Any) -> Any:
    """A test that `holds` is true for every content part of every message."""
    return _items(
        _is_message, lambda item: isinstance(item["content"], str) or all(map(holds, item["content"]))
    )


def _shows(part: Any) -> bool:
    """Whether a part has its image in itself."""
    return bool(part["type"] == "input_image" and not (part.get("uuid") or part.get("file_id")))


def _is_call(item: Any) -> bool:
    return bool(item.get("type") == "function_call")


RESPONSES: list[Rule] = [
    Rule("input", instance((str, list)), "input is not a string or array", null=True),  # type: ignore[arg-type]
    Rule("input", lambda value: value != "", "input cannot be empty"),
    Rule("input", lambda value: value != [], "input array must not be empty"),
    Rule("input", _items(lambda _: True, instance(dict)), "input array items must be objects"),
    Rule(
        "input",
        _items(_is_message, lambda item: text(item.get("role"))),
        "input item role is missing or invalid",
    ),
    Rule(
        "input",
        _items(_is_message, lambda item: "content" in item),
        "input item is missing required content field",
    ),
    Rule(
        "input",
        _items(_is_message, lambda item: isinstance(item["content"], str | list)),
        "input item content must be a string or array",
    ),
    Rule(
        "input",
        _items(_is_message, lambda item: item["content"] != []),
        "input item content array must not be empty",
    ),
    Rule("input", _parts(instance(dict)), "input content items must be objects"),
    Rule(
        "input", _parts(lambda part: text(part.get("type"))), "input content item type is missing or invalid"
    ),
    Rule(
        "input",
        _parts(lambda part: part["type"] != "input_text" or text(part.get("text"))),
        "input_text requires a valid text field",
    ),
    Rule(
        "input",
        _parts(lambda part: not _shows(part) or part.get("image_url") is not None),
        "input_image requires image_url field",
    ),
    Rule(
        "input",
        _parts(lambda part: not _shows(part) or isinstance(part["image_url"], str | dict)),
        "input_image.image_url must be a string or object",
    ),
    Rule(
        "input",
        _items(_is_call, lambda item: text(item.get("call_id", item.get("id")))),
        "function_call item is missing required call_id (or id) field",
    ),
    Rule(
        "input",
        _items(_is_call, lambda item: text(item.get("name"))),
        "function_call item is missing required name field",
    ),
    Rule(
        "input",
        _items(_is_call, lambda item: text(item.get("arguments"))),
        "function_call item is missing required arguments field",
    ),
    *uint32("max_output_tokens"),
    Rule("max_output_tokens", bool, "max_output_tokens value should be greater than 0"),
    Rule("reasoning", instance(dict), "reasoning is not an object"),
    Rule(
        "reasoning", lambda reasoning: text(reasoning.get("effort") or ""), "reasoning.effort is not a string"
    ),
    *TOOLS,
]
RESPONSES_TOGETHER: list[Rule] = [
    Rule("input", lambda body: "input" in body, "input missing in request"),
]
