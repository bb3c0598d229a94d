"""Values of a request that models read as text: instructions and states, which may be JSON or show images."""

from __future__ import annotations

import json
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted

MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 10_000
MAX_JSON_BYTES = 256 << 10


def as_json(value: Any, where: str) -> str:
    """A JSON value as its text.  Raises RequestError for one that is larger than OpenAI's bounds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    depth, count = _size(value)
    if depth > MAX_JSON_DEPTH or count > MAX_JSON_VALUES or len(text.encode()) > MAX_JSON_BYTES:
        raise RequestError(
            f"`{where}` may have {MAX_JSON_DEPTH} levels, {MAX_JSON_VALUES} values, {MAX_JSON_BYTES} bytes",
            field=where,
        )
    return text


def _size(value: Any) -> tuple[int, int]:
    """(levels of nesting, number of values)."""
    inner = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    sizes = [_size(each) for each in inner]
    return 1 + max((depth for depth, _ in sizes), default=0), 1 + sum(count for _, count in sizes)


def plain_parts(content: Any, where: str) -> Any:
    """Content whose parts of JSON are text; anything else stays as it is."""
    if not isinstance(content, list):
        return content
    return [_plain_part(part, f"{where}.{i}") for i, part in enumerate(content)]


def _plain_part(part: Any, where: str) -> Any:
    if not isinstance(part, dict) or part.get("type") != "input_json":
        return part
    if not isinstance(part.get("data"), dict | list):
        raise RequestError(f"`{where}.data` must be an object or a list of objects", field=f"{where}.data")
    return {"type": "input_text", "text": as_json(part["data"], f"{where}.data")}


def read_instructions(value: Any, where: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text of instructions, and their parts that show images.  Raises RequestError."""
    if isinstance(value, str):
        return value, ()
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise RequestError(f"`{where}` must be text or a list of parts, got {quoted(value)}", field=where)
    texts, images = [], []
    for i, part in enumerate(plain_parts(value, where)):
        if part.get("type") == "input_image":
            images.append(part)
        elif part.get("type") in ("input_text", "text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise RequestError(
                f"`{where}.{i}` must be a part of type input_text, input_image or input_json",
                field=f"{where}.{i}",
            )
    return "\n".join(texts), tuple(images)
