"""FastDeploy's `logits_processors_args`: the arguments of its two logits processors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import MAX_LISTED_IDS, MAX_TOKEN_ID
from pipelines.requests.fields.known_fields import Refused, check_fields

FIELD = "logits_processors_args"
REFUSED = {"think_stop_sentence": Refused("reasoning ends at the model's own marker")}


class Processors(NamedTuple):
    """`logit_bias` of LogitBiasLogitsProcessor, `thinking_budget` of ThinkingBudgetLogitsProcessor."""

    logit_bias: dict[int, float]
    thinking_budget: int | None


def read_processors(args: Mapping[str, Any] | None) -> Processors:
    """Raises RequestError for an argument that has no effect here, or a wrong value."""
    if not args:
        return Processors(logit_bias={}, thinking_budget=None)
    given = {name: value for name, value in args.items() if value is not None}
    others = {name: value for name, value in given.items() if name not in Processors._fields}
    check_fields(others, Processors._fields, REFUSED, where=f"{FIELD}.")
    return Processors(_biases(given.get("logit_bias", {})), _budget(given.get("thinking_budget")))


def _biases(value: Any) -> dict[int, float]:
    where = f"{FIELD}.logit_bias"
    if not isinstance(value, dict):
        raise RequestError(f"`{where}` must be an object, got {quoted(value)}", field=where)
    if len(value) > MAX_LISTED_IDS:
        text = f"{where} may hold {MAX_LISTED_IDS} token ids at most."
        raise RequestError(text, field=where)
    biases = {}
    for key, bias in value.items():
        if not (key.isascii() and key.isdecimal() and len(key) <= 10 and int(key) <= MAX_TOKEN_ID):
            raise RequestError(f"`{where}` holds {quoted(key)}, which is no token id", field=where)
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) < float("inf"):
            raise RequestError(
                f"`{where}.{key}` must be a number, got {quoted(bias)}", field=f"{where}.{key}"
            )
        biases[int(key)] = max(-100.0, min(100.0, float(bias)))
    return biases


def _budget(value: Any) -> int | None:
    where = f"{FIELD}.thinking_budget"
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_TOKEN_ID):
        raise RequestError(f"`{where}` must be a non-negative integer, got {quoted(value)}", field=where)
    return value
