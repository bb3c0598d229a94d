"""The shapes of an input: a text, texts, token ids, lists of token ids → `Prompt`s.

Knows nothing of bodies or HTTP.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from pipelines.errors import RequestError
from pipelines.values import Prompt
from server.generation.requests.field_types import MAX_TOKEN_ID
from server.generation.requests.fields import shown

MAX_TEXTS = 16_384
SHAPES = (
    "a string, a list of strings, a list of token ids, a list of lists of token ids, or conversations: "
    "lists of messages"
)


def _listed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}


def _one_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schemas, {"type": "null"}]}


TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
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


def read_inputs(value: Any, where: str, add_special_tokens: bool) -> list[Prompt]:
    """A text, texts, token ids, or lists of token ids.  At least one, none empty.

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
        return [Prompt(ids=_ids(value, where))]
    return [_one(item, f"{where}.{i}", add_special_tokens) for i, item in enumerate(value)]


def _one(item: Any, where: str, add_special_tokens: bool) -> Prompt:
    if item in ("", []):
        raise RequestError("The decoder prompt cannot be empty", field=where)
    if isinstance(item, str):
        return Prompt(text=item, add_special_tokens=add_special_tokens)
    if isinstance(item, list):
        return Prompt(ids=_ids(item, where))
    raise RequestError(f"`{where}`: an input must be {SHAPES}; got {shown(item)}", field=where)


def _ids(items: list[Any], where: str) -> list[int]:
    for i, item in enumerate(items):
        if type(item) is not int and not (type(item) is float and item.is_integer()):
            raise RequestError(
                f"`{where}.{i}` must be a token id, an integer from 0 to the size of the vocabulary, "
                f"got {shown(item)}",
                field=f"{where}.{i}",
            )
        if not 0 <= item <= MAX_TOKEN_ID:
            raise RequestError(f"Token id {shown(item)} is out of vocabulary", field=f"{where}.{i}")
    return [int(item) for item in items]
