"""Checks of a request for beam search before an engine accepts it; every refusal is a RequestError."""

from __future__ import annotations

from dataclasses import fields

from pipelines.base.errors import RequestError
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.submission_checks import Limits
from pipelines.inference.engine.sequences.beam_group import num_candidates
from pipelines.inference.engine.sequences.policy import blocks_for
from pipelines.wire.sampling_params import Beams, SamplingParams

MAX_LENGTH_PENALTY = 30.0
"""10 million tokens to this power are still a number."""
EARLY_STOPPING = (False, True, "never")
GOES_WITH_BEAMS = frozenset(
    {
        "max_tokens",
        "temperature",
        "seed",
        "stop_token_ids",
        "ignore_eos",
        "logprobs",
        "beams",
        "priority",
        "guide",
    }
)
"""Beam search draws nothing, so any seed is honoured.  Temperature and guide have checks of their own; every
other parameter must be neutral."""
FIELDS = {"bad_words_ids": "bad_words"}
"""What clients call a parameter, where it is not its name."""


def check_beams(
    request: GenerationRequest, beams: Beams, eos_token_ids: frozenset[int], limits: Limits
) -> None:
    """Raise RequestError, with the field at fault, for beams that are no search or could never run."""
    params = request.params
    if params.max_tokens < 1:
        raise RequestError("beam search needs max_tokens of at least 1", "max_tokens")
    _check_search(beams, request.n)
    _check_sampling(params)
    ends = set(params.stop_token_ids) | (set() if params.ignore_eos else eos_token_ids)
    _check_room(request.prompts, params.max_tokens, beams.width, len(ends), limits)


def _check_search(beams: Beams, n: int) -> None:
    if beams.width < 1:
        raise RequestError(f"the beam width must be at least 1, not {beams.width}", "n")
    if n > beams.width:
        raise RequestError(f"n is {n}, but a search with {beams.width} beams has no more answers", "n")
    if not -MAX_LENGTH_PENALTY <= beams.length_penalty <= MAX_LENGTH_PENALTY:
        raise RequestError(
            f"length_penalty must lie between {-MAX_LENGTH_PENALTY:g} and {MAX_LENGTH_PENALTY:g}, "
            f"not {beams.length_penalty}",
            "length_penalty",
        )
    if beams.early_stopping not in EARLY_STOPPING:
        raise RequestError(f"early_stopping must be one of {EARLY_STOPPING}", "early_stopping")


def _check_sampling(params: SamplingParams) -> None:
    neutral = SamplingParams()
    for name in (field.name for field in fields(params) if field.name not in GOES_WITH_BEAMS):
        if getattr(params, name) != getattr(neutral, name):
            raise _refusal(FIELDS.get(name, name))
    if params.temperature not in (0, 1):
        raise _refusal("temperature")
    guide = params.guide
    if guide is not None and guide.grammar is not None:
        raise _refusal("structured_outputs")
    if guide is not None and guide.thinking is not None and guide.thinking.budget is not None:
        raise _refusal("thinking_token_budget")


def _refusal(name: str) -> RequestError:
    return RequestError(f"beam search goes by the model's own probabilities: {name} has no part in it", name)


def _check_room(prompts: list[list[int]], max_tokens: int, width: int, num_ends: int, limits: Limits) -> None:
    if width > limits.max_sequences:
        raise RequestError(
            f"a search with {width} beams does not fit the {limits.max_sequences} sequences that this model "
            "runs at a time",
            "n",
        )
    if num_candidates(width, num_ends) > limits.model.vocab_size:
        raise RequestError(
            f"{width} beams and {num_ends} end tokens are too many for a vocabulary of "
            f"{limits.model.vocab_size}",
            "n",
        )
    longest, block_tokens = max(map(len, prompts)), limits.model.block_tokens
    num_cached = min(longest + max_tokens, limits.max_context) - 1  # the last token is never cached
    needed = width * blocks_for(num_cached, block_tokens) * block_tokens
    if needed > limits.cache_tokens:
        raise RequestError(
            f"a search with {width} beams, {longest} prompt tokens and up to {max_tokens} more may need "
            f"{needed} tokens of cache, and this model has {limits.cache_tokens}; lower max_tokens",
            "max_tokens",
        )
