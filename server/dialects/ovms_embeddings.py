"""OpenVINO Model Server's validation rules for embeddings bodies, with its error texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pipelines.base.errors import RequestError
from server.dialects.rules import Rule, instance, text, whole

FORMATS = ("float", "base64", "bytes", "bytes_only")
"""The last two are Braid's additions."""
TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.* contains (?:at least )?(\d+) input tokens")


def _every(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, list) or all(map(holds, value))


def _one_kind(value: Any) -> bool:
    return not isinstance(value, list) or len({type(item) for item in value}) == 1


def _item(value: Any) -> bool:
    return isinstance(value, str | list | dict) or whole(value)


def _ids(value: Any) -> bool:
    """Whether a list element, if it is a list, holds token ids or the messages of a conversation."""
    return not isinstance(value, list) or all(map(whole, value)) or all(map(instance(dict), value))


EMBEDDINGS: list[Rule] = [
    Rule(
        "input",
        instance((str, list)),  # type: ignore[arg-type]
        "input should be string, array of strings or array of integers",
        null=True,
    ),
    Rule("input", lambda value: value != [], "input array should not be empty"),
    Rule("input", _every(lambda item: item != []), "inner arrays in input should not be empty"),
    Rule("input", _one_kind, "input must be homogeneous"),
    Rule("input", _every(_item), "every element in input array should be either string or int"),
    Rule("input", _every(_ids), "input must be either array of strings or array of array of integers"),
    Rule("encoding_format", text, "encoding_format should be string", null=True),
    Rule(
        "encoding_format",
        lambda value: value in FORMATS,
        "encoding_format should either base64 or float",
    ),
]
EMBEDDINGS_TOGETHER: list[Rule] = [
    Rule("input", lambda body: "input" in body or "messages" in body, "input field is required"),
]


def translate_error(error: RequestError) -> RequestError:
    """The error of an input longer than the context, with OpenVINO Model Server's text."""
    found = TOO_LONG.search(error.message)
    if found is None:
        return error
    return RequestError(f"Input length {found[2]} longer than allowed {found[1]}", field="input")
