"""The four shapes of `prompt`: a string, strings, token ids, lists of token ids → `Prompt`s."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import MAX_TOKEN_ID
from pipelines.values.node_values import Gap, Prompt

SHAPES = "a string, a list of strings, a list of token ids or a list of lists of token ids"


def read_prompts(value: Any, add_special_tokens: bool) -> list[Prompt]:
    """At least one prompt, none empty.  Raises RequestError naming the place and the allowed shapes."""
    if value is None or value == "":
        raise RequestError("Either prompt or prompt_embeds must be provided and non-empty.", field="prompt")
    if isinstance(value, str):
        return [Prompt(text=value, add_special_tokens=add_special_tokens)]
    if not isinstance(value, list):
        raise RequestError(f"`prompt` must be {SHAPES}, got {quoted(value)}", field="prompt")
    if not value:
        raise RequestError("You must pass at least one prompt", field="prompt")
    if _is_number(value[0]):
        return [Prompt(ids=token_ids(value, "prompt"))]
    return [_one(item, f"prompt.{i}", add_special_tokens) for i, item in enumerate(value)]


def read_gaps(value: Any, suffix: str, add_special_tokens: bool) -> list[Prompt]:
    """The prompts of one text, or of several, each with `suffix` behind its gap.  Raises RequestError."""
    texts = [value or ""] if isinstance(value, str | None) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise RequestError("suffix requires text prompt input for FIM completion rendering", field="suffix")
    return [gap_prompt(Gap(text, suffix), add_special_tokens) for text in texts]


def gap_prompt(gap: Gap, add_special_tokens: bool = True) -> Prompt:
    """The prompt of a text with a gap."""
    return Prompt(text=gap.prefix + gap.suffix, add_special_tokens=add_special_tokens, gap=gap)


def read_ids(value: Any, where: str) -> list[list[int]]:
    """`prompt_token_ids`: token ids, or lists of them.  At least one prompt, none empty."""
    if not isinstance(value, list) or not value:
        raise RequestError(
            f"`{where}` must be a list of token ids or a list of lists of token ids, got {quoted(value)}",
            field=where,
        )
    if _is_number(value[0]):
        return [token_ids(value, where)]
    for i, item in enumerate(value):
        if not isinstance(item, list) or not item:
            raise RequestError(
                f"`{where}.{i}` must be a list of token ids, got {quoted(item)}", field=f"{where}.{i}"
            )
    return [token_ids(item, f"{where}.{i}") for i, item in enumerate(value)]


def _one(item: Any, where: str, add_special_tokens: bool) -> Prompt:
    if item in ("", []):
        raise RequestError("The decoder prompt cannot be empty", field=where)
    if isinstance(item, str):
        return Prompt(text=item, add_special_tokens=add_special_tokens)
    if isinstance(item, list):
        return Prompt(ids=token_ids(item, where))
    raise RequestError(f"`{where}`: `prompt` must be {SHAPES}, got {quoted(item)}", field=where)


def token_ids(items: list[Any], where: str) -> list[int]:
    """Numbers of a body as token ids.  Raises RequestError naming the one that is none."""
    for i, item in enumerate(items):
        if not _is_number(item) or item != int(item):
            raise RequestError(
                f"`{where}.{i}` must be a token id, an integer from 0 to the size of the vocabulary, "
                f"got {quoted(item)}",
                field=f"{where}.{i}",
            )
        if not 0 <= item <= MAX_TOKEN_ID:
            raise RequestError(f"Token id {quoted(item)} is out of vocabulary", field=f"{where}.{i}")
    return [int(item) for item in items]


def _is_number(item: Any) -> bool:
    return type(item) is int or (type(item) is float and item == item and abs(item) != float("inf"))
