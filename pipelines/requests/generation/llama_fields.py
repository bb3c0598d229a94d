"""The fields of llama.cpp's samplers → their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.requests.fields.field_types import MAX_LAST_TOKENS
from pipelines.wire.sampling_params import LlamaSamplers

BREAKERS = ("\n", ":", '"', "*")
"""Texts across which no repetition reaches, where a request names none."""
OTHER_NAMES = {"dry_penalty_last_n": "dry_last_n"}


def llama_samplers(fields: Mapping[str, Any]) -> LlamaSamplers | None:
    """The parameters of the fields that are set; None where all samplers are off."""
    given = {OTHER_NAMES.get(name, name): value for name, value in fields.items() if value is not None}
    if given.get("dry_last_n") == -1:
        given["dry_last_n"] = MAX_LAST_TOKENS
    samplers = LlamaSamplers(**given)
    return samplers if samplers.masks or samplers.dry_multiplier > 0 else None
