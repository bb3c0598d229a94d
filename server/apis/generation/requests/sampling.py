"""Maps the fields that a client has set to the names of `SamplingParams`.

Does not depend on HTTP or on the engine.
"""

from __future__ import annotations

import secrets
from typing import Any

from pipelines.nodes.generation.sampling_rules import SPECULATION_FIELDS
from server.apis.generation.requests.generation_fields import GenerationFields

LOWEST_TEMPERATURE = 0.01
"""A temperature between 0 and this is raised to it, as in vLLM: below it logits overflow."""

SAME = (
    "min_tokens",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "allowed_token_ids",
    "stop_token_ids",
    "ignore_eos",
    "logprob_token_ids",
    "temp_scaled_logprobs",
    "top_p_normalized_logprobs",
    "beams",
    "priority",
)
"""Fields with the same name and meaning in `SamplingParams`."""


def sampling(request: GenerationFields) -> dict[str, Any]:
    """The sampling parameters of a request; a random seed where it has none."""
    chosen = {name: getattr(request, name) for name in SAME}
    chosen["max_tokens"] = request.num_tokens
    chosen["top_k"] = None if request.top_k is None else max(request.top_k, 0)
    chosen["temperature"] = temperature(request.temperature)
    seed = request.wanted_seed
    chosen["seed"] = secrets.randbits(63) if seed is None else seed % 2**64
    chosen["logit_bias"] = ((request.logit_bias or {}) | request.processors().logit_bias) or None
    chosen["bad_words_ids"] = [[token_id] for token_id in request.bad_words_token_ids or ()] or None
    chosen["logprobs"] = request.alternatives()
    chosen["prompt_logprobs"] = request.scores_prompt()
    chosen |= {name: getattr(request, field) for name, (field, _) in SPECULATION_FIELDS.items()}
    chosen["draft_logprobs"] = (request.include_draft_logprobs and request.alternatives() is not None) or None
    if request.repetition_detection is not None:
        chosen["repetition_detection"] = request.repetition_detection.detection()
    return {name: value for name, value in chosen.items() if value is not None}


def temperature(requested: float | None) -> float | None:
    if not requested:
        return requested
    return max(requested, LOWEST_TEMPERATURE)
