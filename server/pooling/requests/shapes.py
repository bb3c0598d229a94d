"""The shapes of an input: a text, texts, token ids, lists of token ids → `Prompt`s.

Knows nothing of bodies or HTTP.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import WithJsonSchema

from pipelines.errors import RequestError
from pipelines.values import Prompt
from server.generation.requests.known_fields import shown
from server.generation.requests.prompts import token_ids

MAX_TEXTS = 16_384
MAX_WRITTEN_CHARS = 1 << 25
SHAPES = (
    "a string, a list of strings, a list of token ids, a list of lists of token ids, or conversations: "
    "lists of messages"
)


def _listed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}


def _one_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schemas, {"type": "null"}]}


TEXT: dict[str, Any] = {"type": "string"}
TEXTS, IDS, TALK = _listed(TEXT), _listed({"type": "integer", "minimum": 0}), _listed({"type": "object"})
Input = Annotated[Any, WithJsonSchema(_one_of(TEXT, TEXTS, IDS, _listed(IDS), TALK, _listed(TALK)))]
Conversations = Annotated[Any, WithJsonSchema(_one_of(TALK, _listed(TALK)))]
"""Anything; what it must be is said in better words than a type's."""


def check_number(num_texts: int, where: str) -> None:
    """Raises RequestError when there are more than MAX_TEXTS."""
    if num_texts > MAX_TEXTS:
        raise RequestError(
            f"`{where}` may hold {MAX_TEXTS} texts at most, got {num_texts}; send them in several requests",
            field=where,
        )


def check_written(num_chars: list[int], where: str) -> None:
    """Raise RequestError where texts of so many characters, written out, are more than MAX_WRITTEN_CHARS.

    What stands beside several texts counts with each: a short body may repeat a long one thousands of times.
    """
    if sum(num_chars) > MAX_WRITTEN_CHARS:
        raise RequestError(
            f"`{where}`: {len(num_chars)} texts of {sum(num_chars)} characters together, what stands beside "
            f"each counted with it; one request may have {MAX_WRITTEN_CHARS}",
            field=where,
        )


def written_chars(variables: dict[str, Any] | None) -> int:
    """Of a template's variables, as JSON."""
    return len(json.dumps(variables)) if variables else 0


def read_inputs(value: Any, where: str, add_special_tokens: bool) -> list[Prompt]:
    """A text, texts, token ids, or lists of token ids; at least one.

    An empty text is one to models whose tokenizers put tokens around it.

    Raises RequestError naming the place and the allowed shapes.
    """
    if isinstance(value, str):
        return [_one(value, where, add_special_tokens)]
    if value is None:
        raise RequestError(f"`{where}` is required", field=where)
    if not isinstance(value, list):
        raise RequestError(f"`{where}` must be {SHAPES}; got {shown(value)}", field=where)
    if not value:
        raise RequestError("You must pass at least one prompt", field=where)
    if type(value[0]) in (int, float):
        return [Prompt(ids=token_ids(value, where))]
    return [_one(item, f"{where}.{i}", add_special_tokens) for i, item in enumerate(value)]


def _one(item: Any, where: str, add_special_tokens: bool) -> Prompt:
    if isinstance(item, str):
        return Prompt(text=item, add_special_tokens=add_special_tokens)
    if item == []:
        raise RequestError("The decoder prompt cannot be empty", field=where)
    if isinstance(item, list):
        return Prompt(ids=token_ids(item, where))
    raise RequestError(f"`{where}`: an input must be {SHAPES}; got {shown(item)}", field=where)
