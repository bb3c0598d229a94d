"""Checks of a request before an engine accepts it; every refusal is a RequestError that names the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.routed_experts import ExpertRecord
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.sequences.policy import blocks_for
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.wire.sampling_params import SamplingParams, check_ids

MAX_SCORES = 1 << 22
"""Most log-probabilities of prompts in one request, over all its choices: about 60 MB on their way."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine can hold: sequences, what its model reads, and the cache, in tokens."""

    max_sequences: int
    model: ModelShape
    cache_tokens: int
    max_uncut: int = 0  # tokens of the longest image, where a step has all of one; 0: images may be cut

    @property
    def max_context(self) -> int:
        """Most tokens of one sequence, output included; the last token is never cached."""
        return min(self.model.max_context, self.cache_tokens + 1)

    def beside(self, num_encoder_states: int) -> Limits:
        """What is left for tokens beside the blocks of the encoder states."""
        block_tokens = self.model.block_tokens
        taken = blocks_for(num_encoder_states, block_tokens) * block_tokens
        return replace(self, cache_tokens=self.cache_tokens - taken)


def check_encoder_states(request: GenerationRequest, limits: Limits) -> Limits:
    """The limits for the tokens of a request, whose encoder states are in the cache too.

    Raises RequestError for encoder states that the model does not read, or that leave no room.
    """
    encoder_states, size = request.encoder_states, limits.model.encoder_hidden_size
    if len(encoder_states) != (len(request.prompts) if size else 0):
        what = "the states of an encoder" if size else "no encoder states"
        raise RequestError(
            f"this model attends to {what}; the request has those of {len(encoder_states)} inputs for "
            f"{len(request.prompts)} prompts"
        )
    if not encoder_states:
        return limits
    for values in encoder_states:
        if values.ndim != 2 or values.shape[1] != size or not len(values):
            raise RequestError(f"this model attends to states of {size} numbers, not to {values.shape}")
    left = limits.beside(max(map(len, encoder_states)))
    if left.cache_tokens < limits.model.block_tokens:
        raise ContextTooLong(
            f"This model's cache holds {limits.cache_tokens} tokens and encoder states together. However, "
            f"your input has {max(map(len, encoder_states))} encoder states. Please reduce its length, or "
            "serve the model cache.memory_gb."
        )
    return left


def check_images(request: GenerationRequest, limits: Limits) -> None:
    """Raise RequestError for images that the model does not read, or that are not those of the prompts."""
    model = limits.model
    check_rows(request.images, [*map(len, request.prompts)], model.inputs_embeds_size, model.mrope_axes)
    for own in filter(None, request.images if limits.max_uncut else ()):
        _check_uncut(max(map(len, own.values)), request.params, limits.max_uncut)


def check_routed_experts(request: GenerationRequest, recorded: ExpertRecord | None) -> None:
    """Raise RequestError where choices of experts are asked for that are not recorded, or of no token."""
    params = request.params
    start, shortest = params.routed_experts_prompt_start, min(map(len, request.prompts))
    if recorded is None and (params.return_routed_experts or start):
        raise RequestError(
            "this model's routed experts are not recorded: they are where the `model` line of its graph has "
            "`routed_experts: counted`",
            "return_routed_experts" if params.return_routed_experts else "routed_experts_prompt_start",
        )
    if start and start >= shortest:
        raise RequestError(
            f"routed_experts_prompt_start must be less than the {shortest} tokens of the prompt, got {start}",
            "routed_experts_prompt_start",
        )


def check_rows(
    images: Sequence[PromptEmbeds | None], lengths: Sequence[int], size: int, mrope_axes: int
) -> None:
    """Raise RequestError for images of prompts of these `lengths` that a model which reads rows of `size`
    numbers, 0 of none, does not take.
    """
    if images and not size:
        raise RequestError("this model takes text only")
    if images and len(images) != len(lengths):
        raise RequestError(f"the request has the images of {len(images)} prompts, not of all")
    for length, own in zip(lengths, images, strict=False):
        if own is None:
            continue
        if any(rows.ndim != 2 or rows.shape[1] != size for rows in own.values):
            raise RequestError(f"this model reads rows of {size} numbers for the tokens of an image")
        places = own.places
        if (np.diff(places) < 1).any() or places[0] < 0 or places[-1] >= length:
            raise RequestError("the images have other places than the prompt's tokens for them")
        _check_grids(own, mrope_axes)


def _check_grids(images: PromptEmbeds, mrope_axes: int) -> None:
    """Raise RequestError unless the images are grids of all their tokens, where positions depend on it."""
    sizes = [rows * columns for rows, columns in images.grids]
    if sizes != ([] if mrope_axes == 1 else [len(rows) for rows in images.values]):
        raise RequestError(
            f"this model's positions have {mrope_axes} axes; the images have other rows and columns"
        )


def _check_uncut(longest: int, params: SamplingParams, most: int) -> None:
    """Raise RequestError for an image whose tokens do not fit in one step."""
    if longest > most:
        raise RequestError(
            f"an image has {longest} tokens, which attend to one another, and a step has room for {most} of "
            "them: the model's graph needs a larger max_step_tokens"
        )
    if params.prompt_logprobs is not None:
        raise RequestError(
            "a prompt with images has no log-probabilities: this model computes all tokens of an image at "
            "once",
            "prompt_logprobs",
        )


def check(request: GenerationRequest, limits: Limits) -> None:
    """Raise RequestError, with the field at fault, for what could never run."""
    prompts, params, n = request.prompts, request.params, request.n
    if not prompts:
        raise RequestError("You must pass at least one prompt", "prompt")
    if n < 1:
        raise RequestError(f"n must be at least 1, not {n}", "n")
    for prompt in prompts:
        _check_prompt(prompt, limits)
    check_ids(params, limits.model.vocab_size)
    _check_scores(sum(map(len, prompts)) * n, params)


def _check_scores(num_tokens: int, params: SamplingParams) -> None:
    num_scores = 0 if params.prompt_logprobs is None else num_tokens * (1 + params.prompt_logprobs)
    if num_scores > MAX_SCORES:
        raise RequestError(
            f"{num_scores} log-probabilities of prompts were requested, but at most {MAX_SCORES} are given "
            "in one request; request fewer alternatives, or send shorter prompts.",
            "prompt_logprobs",
        )


def _check_prompt(prompt: list[int], limits: Limits) -> None:
    if not prompt:
        raise RequestError("The decoder prompt cannot be empty", "prompt")
    for token_id in (min(prompt), max(prompt)):
        if not 0 <= token_id < limits.model.vocab_size:
            raise RequestError(f"Token id {token_id} is out of vocabulary")
    if len(prompt) >= limits.model.max_context:
        raise ContextTooLong(
            f"This model's maximum context length is {limits.model.max_context} tokens. However, your prompt "
            f"contains {len(prompt)} input tokens, which leaves no room for any output tokens. Please "
            "reduce the length of the input prompt.",
            "input_tokens",
        )
    if len(prompt) > limits.cache_tokens:
        raise ContextTooLong(
            f"This model's cache holds {limits.cache_tokens} tokens. However, your prompt contains "
            f"{len(prompt)} input tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )
