"""RULES: checks of a generation request that involve more than one field.

Each rule raises RequestError with the name of the field at fault.  Does not depend on HTTP or models.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.base.errors import RequestError
from pipelines.nodes.generation.sampling_rules import SPECULATION_FIELDS
from pipelines.requests.fields.known_fields import IGNORED, check_fields
from pipelines.requests.generation.generation_fields import GenerationFields


def fields_are_known(request: GenerationFields, max_context: int) -> None:
    if request.model_extra:
        check_fields(request.model_extra, type(request).model_fields, request.refused, IGNORED)


def stream_options(request: GenerationFields, max_context: int) -> None:
    if request.stream_options is not None and not request.stream:
        raise RequestError("Stream options can only be defined when `stream=True`.", field="stream_options")


def greedy_is_one(request: GenerationFields, max_context: int) -> None:
    if request.temperature == 0 and request.num_returned > 1 and not request.use_beam_search:
        raise RequestError(f"n must be 1 when using greedy sampling, got {request.n}.", field="n")


def best_of(request: GenerationFields, max_context: int) -> None:
    if request.best_of is None:
        return
    if request.best_of < request.num_returned:
        raise RequestError(
            f"best_of must be greater than or equal to n={request.num_returned}, got {request.best_of}.",
            field="best_of",
        )
    if request.stream and request.picks_best:
        raise RequestError("best_of cannot be used when `stream=True`.", field="best_of")


def token_counts(request: GenerationFields, max_context: int) -> None:
    wanted = request.num_tokens
    if wanted is not None and wanted > max_context:
        raise RequestError(
            f"max_tokens={wanted} cannot be greater than max_model_len={max_context}. "
            "Please request fewer output tokens.",
            field="max_tokens" if request.max_tokens == wanted else "max_completion_tokens",
        )
    most = wanted or request.most_tokens or max_context
    if (request.min_tokens or 0) > most:
        raise RequestError(
            f"min_tokens must be less than or equal to max_tokens={most}, got {request.min_tokens}.",
            field="min_tokens",
        )


def truncation(request: GenerationFields, max_context: int) -> None:
    if (request.truncate_prompt_tokens or 0) > max_context:
        raise RequestError(
            "truncate_prompt_tokens value is greater than max_model_len. "
            "Please request a smaller truncation size.",
            field="truncate_prompt_tokens",
        )


def scores(request: GenerationFields, max_context: int) -> None:
    if request.stream and request.prompt_logprobs:
        raise RequestError("`prompt_logprobs` are not available when `stream=True`.", field="prompt_logprobs")
    if request.stream and request.return_routed_experts:
        raise RequestError(
            "`return_routed_experts` is not available when `stream=True`.", field="return_routed_experts"
        )
    if request.logprob_token_ids and request.alternatives() is None:
        raise RequestError(
            "when using `logprob_token_ids`, `logprobs` must be set.", field="logprob_token_ids"
        )


def speculation(request: GenerationFields, max_context: int) -> None:
    """A draft has a fixed length or a confidence threshold, not both; beam search has no speculation."""
    if request.num_assistant_tokens and request.assistant_confidence_threshold:
        raise RequestError(
            "`assistant_confidence_threshold` and `num_assistant_tokens` are mutually exclusive",
            field="assistant_confidence_threshold",
        )
    for field, _ in SPECULATION_FIELDS.values():
        if request.use_beam_search and getattr(request, field):
            raise RequestError(f"`{field}` is not supported with beam search", field=field)


def beams(request: GenerationFields, max_context: int) -> None:
    if request.use_beam_search:
        if request.stream:
            raise RequestError("Streaming is not currently supported with beam search", field="stream")
        if request.logprob_token_ids:
            raise RequestError(
                "`logprob_token_ids` is not supported with beam search", field="logprob_token_ids"
            )
        return
    if request.length_penalty not in (None, 1):
        raise RequestError("`length_penalty` weighs beams; set `use_beam_search` too", field="length_penalty")
    if request.early_stopping:
        raise RequestError("`early_stopping` ends beams; set `use_beam_search` too", field="early_stopping")


Rule = Callable[[GenerationFields, int], None]

RULES: tuple[Rule, ...] = (
    fields_are_known,
    stream_options,
    greedy_is_one,
    best_of,
    token_counts,
    truncation,
    scores,
    speculation,
    beams,
)
"""Run in this order; the second argument is the context length of the model."""
