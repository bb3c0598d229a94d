"""Pydantic's errors → one text in terms of JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted

MAX_SHOWN_FAULTS = 3
UNION_KIND = re.compile(r"(list|dict|function-\w+)\[.*\]|constrained-\w+")
SCALARS = frozenset({"str", "int", "float", "bool"})
"""Parts of paths that pydantic makes for a field of several types: `labels.list[str].0`, `labels.str`."""

PLAIN = {
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
}
"""Kind of a pydantic error → a text in terms of JSON."""
TYPES = ("dict", "model", "model_attributes", "list", "bool", "string", "int", "float")
FAULT_WORDS = {
    "json_invalid": None,
    "missing": "missing_required_parameter",
    **{f"{kind}_{how}": "invalid_type" for kind in TYPES for how in ("type", "parsing")},
}
"""Kind of a pydantic error → OpenAI's word for it; any other is an `invalid_value`."""


def from_validation(error: ValidationError, where: str = "") -> RequestError:
    """Pydantic's errors as one text that names each field and its allowed values.

    `where` is the path of the validated value in the body.
    """
    faults = _by_fields(error.errors(include_url=False, include_context=False))
    for fault in faults:
        fault["loc"] = (where, *fault["loc"]) if where else fault["loc"]
    texts = [_fault_text(fault) for fault in faults[:MAX_SHOWN_FAULTS]]
    if len(faults) > len(texts):
        texts.append(f"and {len(faults) - len(texts)} more")
    word = FAULT_WORDS.get(faults[0]["type"], "invalid_value")
    return RequestError("; ".join(texts), field=_path(faults[0]) or None, word=word)


def _by_fields(errors: Sequence[Any]) -> list[Any]:
    """The faults with paths of fields alone.  Of a field of several types each type has one; the one of a
    scalar is left out where a list or an object was sent, whose wrong item another names.
    """
    paths = [fault["loc"] for fault in errors]
    faults = []
    for fault in errors:
        *field, last = fault["loc"] or ("",)
        place = len(field)
        others = [path for path in paths if [*path[:place]] == field and path != fault["loc"]]
        kinds = {path[place] for path in others if len(path) > place and _is_kind(path[place])}
        if last not in SCALARS or not kinds:
            faults.append({**fault, "loc": (*(part for part in fault["loc"] if not _is_kind(part)),)})
        elif not any(len(path) > place + 1 and path[place] in kinds for path in others):
            faults.append({**fault, "loc": (*(part for part in field if not _is_kind(part)),)})
    return faults


def _is_kind(part: str | int) -> bool:
    return isinstance(part, str) and UNION_KIND.fullmatch(part) is not None


def _path(fault: Any) -> str:
    return ".".join(map(str, fault["loc"]))


def _fault_text(fault: Any) -> str:
    path, message, kind = _path(fault), fault["msg"], fault["type"]
    if kind == "json_invalid":
        return f"the body is not valid JSON: {message.removeprefix('Invalid JSON: ')}"
    if not path:
        return "the body must be a JSON object"
    if kind == "missing":
        return f"`{path}` is required"
    if kind == "plain_error":
        return str(message)
    if kind == "field_error":
        return f"`{path}` {message}"
    message = PLAIN.get(kind) or _must(message)
    return f"`{path}` {message}, got {quoted(fault['input'])}"


def _must(message: str) -> str:
    for start in ("Input should be a valid ", "Input should be "):
        if message.startswith(start):
            return f"must be {'a ' if start.endswith('valid ') else ''}{message[len(start) :]}"
    return message
