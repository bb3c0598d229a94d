"""Maps the fields that a client has set to the names of `SamplingParams`.

Does not depend on HTTP or on the engine.
"""

from __future__ import annotations

import secrets
from dataclasses import fields
from operator import attrgetter
from typing import Any

from pipelines.nodes.generation.sampling_rules import SPECULATION_FIELDS
from pipelines.requests.generation.generation_fields import GenerationFields
from pipelines.wire.sampling_params import SamplingParams

LOWEST_TEMPERATURE = 0.01
"""A temperature between 0 and this is raised to it, as in vLLM: below it logits overflow."""

SAME = tuple(each.name for each in fields(SamplingParams) if each.name in GenerationFields.model_fields)
"""Fields of a request with the name that they have in `SamplingParams`; `sampling` overrides a few."""
values_of_same = attrgetter(*SAME)


def sampling(request: GenerationFields) -> dict[str, Any]:
    """The sampling parameters of a request; a random seed where it has none."""
    chosen = dict(zip(SAME, values_of_same(request), strict=True))
    chosen["beams"] = request.beams
    chosen["max_tokens"] = request.num_tokens
    chosen["repetition_penalty"] = request.wanted_repetition_penalty
    chosen["top_k"] = None if request.top_k is None else max(request.top_k, 0)
    chosen["temperature"] = temperature(request.temperature)
    seed = request.wanted_seed
    chosen["seed"] = secrets.randbits(63) if seed is None else seed % 2**64
    chosen["logit_bias"] = ((request.logit_bias or {}) | request.processors().logit_bias) or None
    chosen["bad_words_ids"] = [[token_id] for token_id in request.bad_words_token_ids or ()] or None
    chosen["logprobs"] = request.alternatives()
    chosen["prompt_logprobs"] = request.scores_prompt()
    chosen |= {name: getattr(request, field) for name, (field, _) in SPECULATION_FIELDS.items()}
    chosen["llama"] = request.llama
    if request.mirostat:  # what it allows depends on the token before
        chosen["num_draft_tokens"] = 0
    chosen["draft_logprobs"] = (request.include_draft_logprobs and request.alternatives() is not None) or None
    if request.stream:  # only whole replies have a place for them
        chosen["return_routed_experts"] = False
    repetition = request.repetition_detection
    chosen["repetition_detection"] = None if repetition is None else repetition.detection()
    return {name: value for name, value in chosen.items() if value is not None}


def temperature(requested: float | None) -> float | None:
    if not requested:
        return requested
    return max(requested, LOWEST_TEMPERATURE)
