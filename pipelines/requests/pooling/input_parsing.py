"""Parses an input (a text, texts, token ids, or lists of token ids) to `Prompt`s, and limits its size."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import WithJsonSchema

from pipelines.base.errors import MissingField, RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.generation.prompts import token_ids
from pipelines.values.node_values import Prompt

MAX_TEXTS = 16_384
MAX_TOTAL_CHARS = 1 << 25
SHAPES = (
    "a string, a list of strings, a list of token ids, a list of lists of token ids, or conversations: "
    "lists of messages"
)


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}


def _one_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schemas, {"type": "null"}]}


TEXT: dict[str, Any] = {"type": "string"}
TEXTS, IDS, MESSAGES = (
    _list_of(TEXT),
    _list_of({"type": "integer", "minimum": 0}),
    _list_of({"type": "object"}),
)
Input = Annotated[Any, WithJsonSchema(_one_of(TEXT, TEXTS, IDS, _list_of(IDS), MESSAGES, _list_of(MESSAGES)))]
Conversations = Annotated[Any, WithJsonSchema(_one_of(MESSAGES, _list_of(MESSAGES)))]
"""Any value for pydantic: the functions here check it with clearer error texts."""


def check_number(num_texts: int, where: str) -> None:
    """Raise RequestError when there are more than MAX_TEXTS."""
    if num_texts > MAX_TEXTS:
        raise RequestError(
            f"`{where}` may hold {MAX_TEXTS} texts at most, got {num_texts}; send them in several requests",
            field=where,
        )


def check_total_chars(num_chars: list[int], where: str) -> None:
    """Raise RequestError when texts of these lengths hold more than MAX_TOTAL_CHARS characters together.

    Text that is added to several texts counts for each: a short body may repeat it thousands of times.
    """
    if sum(num_chars) > MAX_TOTAL_CHARS:
        raise RequestError(
            f"`{where}`: {len(num_chars)} texts of {sum(num_chars)} characters together, including what is "
            f"added to each; one request may have at most {MAX_TOTAL_CHARS}",
            field=where,
        )


def json_chars(variables: dict[str, Any] | None) -> int:
    """The length of a chat template's variables as JSON."""
    return len(json.dumps(variables)) if variables else 0


def read_inputs(value: Any, where: str, add_special_tokens: bool) -> list[Prompt]:
    """Prompts from a text, texts, token ids, or lists of token ids; at least one.

    An empty text is allowed: some tokenizers add tokens to it.  Raises RequestError with the field and the
    allowed shapes.
    """
    if isinstance(value, str):
        return [_prompt(value, where, add_special_tokens)]
    if value is None:
        raise MissingField(f"`{where}` is required", field=where)
    if not isinstance(value, list):
        raise RequestError(f"`{where}` must be {SHAPES}; got {quoted(value)}", field=where)
    if not value:
        raise RequestError("You must pass at least one prompt", field=where)
    if type(value[0]) in (int, float):
        return [Prompt(ids=token_ids(value, where))]
    return [_prompt(item, f"{where}.{i}", add_special_tokens) for i, item in enumerate(value)]


def _prompt(item: Any, where: str, add_special_tokens: bool) -> Prompt:
    if isinstance(item, str):
        return Prompt(text=item, add_special_tokens=add_special_tokens)
    if item == []:
        raise RequestError("The decoder prompt cannot be empty", field=where)
    if isinstance(item, list):
        return Prompt(ids=token_ids(item, where))
    raise RequestError(f"`{where}`: an input must be {SHAPES}; got {quoted(item)}", field=where)
