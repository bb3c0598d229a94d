"""Types of request fields: the JSON values that each accepts, and the error text for others.

Numbers may be numbers as text ("5"), but no booleans; 5.0 is a whole number; true and false may be text or 1
and 0, as in vLLM.  Ranges and their texts follow vLLM.
Does not depend on endpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    GetJsonSchemaHandler,
    StrictStr,
    ValidationInfo,
)
from pydantic_core import CoreSchema, PydanticCustomError

from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.request_ids import MAX_ID_CHARS, clean_id
from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS, MAX_NGRAM

MAX_TOKEN_ID = 2**31 - 1
MAX_NUM_CHOICES = 128
MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_BAD_WORDS = 128
MAX_LOGPROBS = 20
MAX_CACHE_SALT_CHARS = 128
MAX_CHOSEN_IDS = 128
MAX_LISTED_IDS = 16_384
"""Most token ids of one field: vLLM has no bound, and each id is looked at in every process and step."""
MAX_PATTERN = 1024
MAX_LAST_TOKENS = 512
"""The most tokens of a search for repetitions, which compares each of them with all others."""


def field_error(text: str) -> PydanticCustomError:
    """A validation error; its text for the client is the name of the field and then `text`."""
    return PydanticCustomError("field_error", "{text}", {"text": text})


def plain_error(text: str) -> PydanticCustomError:
    """A validation error whose `text` has the name of the field already."""
    return PydanticCustomError("plain_error", "{text}", {"text": text})


def whole(value: Any) -> Any:
    """An int, a float that is one, or text, which pydantic reads."""
    if type(value) is float and value.is_integer():
        return int(value)
    if value is not None and type(value) not in (int, str):
        raise field_error(f"must be an integer, got {quoted(value)}")
    return value


def number(value: Any) -> Any:
    """An int, a finite float, or text, which pydantic reads."""
    if value is None or type(value) in (int, str):
        return value
    if type(value) is not float or not math.isfinite(value):
        raise field_error(f"must be a number, got {quoted(value)}")
    return value


def check(allowed: Callable[[Any], bool], text: str) -> AfterValidator:
    """Refuse a value that is not `allowed`; `text` may use {name} and {got}."""

    def checked(value: Any, info: ValidationInfo) -> Any:
        if value is not None and not allowed(value):
            raise plain_error(text.format(name=info.field_name, got=quoted(value)))
        return value

    return AfterValidator(checked)


def at_most(limit: int, things: str) -> BeforeValidator:
    """Refuse a list or an object of more than `limit` items before any of them is looked at."""

    def checked(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, list | dict) and len(value) > limit:
            raise plain_error(f"{info.field_name} may hold {limit} {things} at most.")
        return value

    return BeforeValidator(checked)


class HashableFailFast(FailFast):
    """Pydantic's `FailFast`, which a union may hold too."""

    __hash__ = object.__hash__


Item = TypeVar("Item")
Items = Annotated[list[Item], HashableFailFast()]
"""A list of which only the first bad item is reported: a body may hold a million."""


DocumentFields = Annotated[dict[str, StrictStr], at_most(1024, "fields")]


class AlsoAccepts:
    """A mark in the annotation of a field: a further schema that it accepts, for its JSON Schema alone."""

    def __init__(self, **schema: Any) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, describe: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [describe(core_schema), self.schema]}


def listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(whole)]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(number)]

NotNegative = Annotated[Number, check(lambda n: n >= 0, "{name} must be at least 0, got {got}.")]
LastTokens = Annotated[
    Whole,
    check(lambda n: -1 <= n <= MAX_LAST_TOKENS, f"{{name}} must be in [-1, {MAX_LAST_TOKENS}], got {{got}}."),
]
"""How many of the last tokens are looked at; -1: as many as may be."""
Breakers = Annotated[
    Items[StrictStr],
    at_most(MAX_STOPS, "texts"),
    check(all, "{name} cannot contain an empty string."),
]
NumChoices = Annotated[
    Whole,
    check(lambda n: n >= 1, "{name} must be at least 1, got {got}."),
    check(lambda n: n <= MAX_NUM_CHOICES, f"{{name}} must be at most {MAX_NUM_CHOICES}, got {{got}}."),
]
NumTokens = Annotated[Whole, check(lambda n: n >= 1, "{name} must be at least 1, got {got}.")]
NumTokensOrNone = Annotated[Whole, check(lambda n: n >= 0, "{name} must be at least 1, got {got}.")]
"""`max_tokens` of completions, which may be 0 to echo the prompt alone."""
MostTokens = Annotated[
    Whole,
    check(
        lambda n: n in (-2, -1) or 1 <= n <= MAX_TOKEN_ID,
        "`{name}` must be -1 or -2 (what the context has room for), or at least 1, got {got}.",
    ),
]
"""llama.cpp's limit of output tokens."""
Budget = Annotated[
    Whole,
    check(
        lambda n: -1 <= n <= MAX_TOKEN_ID,
        "`{name}` must be a non-negative integer or -1 for unlimited.",
    ),
]
Interval = Annotated[Whole, check(lambda n: 1 <= n <= 1024, "{name} must be in [1, 1024], got {got}.")]
KeptTokens = Annotated[
    Whole,
    check(
        lambda n: n == -1 or 1 <= n <= MAX_TOKEN_ID,
        "`{name}` must be -1 (what the model can take), or at least 1, got {got}.",
    ),
]
Priority = Annotated[
    Whole, check(lambda p: -(2**63) <= p < 2**63, "{name} must fit a signed 64-bit integer, got {got}.")
]
PromptStart = Annotated[
    Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, "{name} must be at least 0, got {got}.")
]
LengthPenalty = Annotated[Number, check(lambda p: -10 <= p <= 10, "{name} must be in [-10, 10], got {got}.")]
MinTokens = Annotated[
    Whole,
    check(lambda n: 0 <= n <= MAX_TOKEN_ID, "{name} must be greater than or equal to 0, got {got}."),
]
Temperature = Annotated[
    Number,
    check(lambda t: t >= 0, "{name} must be non-negative, got {got}."),
    check(lambda t: t <= 2, "{name} must be in [0, 2], got {got}."),
]
TopP = Annotated[Number, check(lambda p: 0 < p <= 1, "{name} must be in (0, 1], got {got}.")]
TopK = Annotated[
    Whole,
    check(lambda k: -1 <= k <= MAX_TOKEN_ID, "{name} must be 0 (disable), or at least 1, got {got}."),
]
MinP = Annotated[Number, check(lambda p: 0 <= p <= 1, "{name} must be in [0, 1], got {got}.")]
RepetitionPenalty = Annotated[
    Number,
    check(lambda p: p > 0, "{name} must be greater than zero, got {got}."),
    check(lambda p: p <= 1e6, "{name} must be at most 1e6, got {got}."),
]
Penalty = Annotated[Number, check(lambda p: -2 <= p <= 2, "{name} must be in [-2, 2], got {got}.")]
Seed = Annotated[
    Whole, check(lambda s: -(2**63) <= s < 2**63, "{name} must fit a signed 64-bit integer, got {got}.")
]
NumLogprobs = Annotated[
    Whole,
    check(lambda k: k >= 0, f"`{{name}}` must be in [0, {MAX_LOGPROBS}], got {{got}}."),
    check(
        lambda k: k <= MAX_LOGPROBS,
        "Requested sample logprobs of {got}, which is greater than max allowed: " + str(MAX_LOGPROBS),
    ),
]
NumDraftTokens = Annotated[
    Whole,
    check(lambda n: 0 <= n <= MAX_DRAFT_TOKENS, f"{{name}} must be in [0, {MAX_DRAFT_TOKENS}], got {{got}}."),
]
NgramSize = Annotated[
    Whole, check(lambda n: 1 <= n <= MAX_NGRAM, f"{{name}} must be in [1, {MAX_NGRAM}], got {{got}}.")
]
Confidence = Annotated[Number, check(lambda p: 0 <= p <= 1, "{name} must be in [0, 1], got {got}.")]
Stops = Annotated[
    Items[StrictStr],
    BeforeValidator(listed),
    AlsoAccepts(type="string"),
    at_most(MAX_STOPS, "strings"),
    check(all, "{name} cannot contain an empty string."),
    check(
        lambda stops: all(len(stop) <= MAX_STOP_CHARS for stop in stops),
        f"{{name}} strings may have {MAX_STOP_CHARS} characters at most.",
    ),
]
TokenIds = Annotated[
    Items[Whole],
    check(
        lambda ids: all(0 <= token_id <= MAX_TOKEN_ID for token_id in ids),
        "{name} must hold token ids, integers from 0 to the size of the vocabulary.",
    ),
]
ChosenIds = Annotated[TokenIds, at_most(MAX_CHOSEN_IDS, "token ids")]
ListedIds = Annotated[TokenIds, at_most(MAX_LISTED_IDS, "token ids")]
AllowedIds = Annotated[ListedIds, check(bool, "{name} is not None and empty!")]
BadWords = Annotated[
    Items[StrictStr],
    at_most(MAX_BAD_WORDS, "words"),
    check(
        lambda words: all(word.strip() for word in words),
        "{name} cannot contain an empty string. Got {name}={got}",
    ),
    check(
        lambda words: sum(map(len, words)) <= MAX_BAD_WORDS * 64,
        f"{{name}} may have {MAX_BAD_WORDS * 64} characters together.",
    ),
]
CacheSalt = Annotated[
    StrictStr,
    check(
        lambda salt: 0 < len(salt) <= MAX_CACHE_SALT_CHARS and not set(salt) & set("@/\\\0"),
        f"Parameter '{{name}}' must be 1 to {MAX_CACHE_SALT_CHARS} characters and must not contain "
        "'@', '/', '\\', or NUL.",
    ),
]


RequestId = Annotated[
    StrictStr,
    check(
        lambda text: clean_id(text) is not None,
        f"{{name}} must be 1 to {MAX_ID_CHARS} printable ASCII characters without spaces.",
    ),
]


def biases(value: dict[str, float]) -> dict[int, float]:
    """`logit_bias`: token ids as text → values clamped to ±100, as vLLM does."""
    bad = [key for key in value if not (key.isascii() and key.isdecimal())]
    if bad:
        raise plain_error(
            f"logit_bias contains key(s) that cannot be converted to integer token IDs: {quoted(bad[:3])}"
        )
    large = [key for key in value if len(key) > 10 or int(key) > MAX_TOKEN_ID]
    if large:
        raise plain_error(f"token_id(s) {quoted(large[:3])} in logit_bias contain out-of-vocab token ids.")
    return {int(key): max(-100.0, min(100.0, bias)) for key, bias in value.items()}


LogitBias = Annotated[dict[str, Number], at_most(MAX_LISTED_IDS, "token ids"), AfterValidator(biases)]
