"""Requests that a graph cannot serve as a whole, because none of its nodes handles one of their fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from pipelines.base.errors import BadImage, RequestError
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.tasks import (
    PURPOSES,
    GenerationInput,
    ImageInput,
    MediaInput,
    PoolingInput,
    PromptInput,
)

MEDIA = ("images", "sounds")
"""Fields of a request that a node of the graph handles."""


def check_handled(model: str, request: Any, plan: RequestPlan) -> None:
    """Raise RequestError for a field that no node of the model's graph handles."""
    if isinstance(request, PromptInput):
        _check_media(model, request, plan)
    if isinstance(request, GenerationInput):
        _check_generation(model, request, plan)
    elif isinstance(request, PoolingInput):
        _check_pooling(model, request, plan)


def _check_media(model: str, request: PromptInput, plan: RequestPlan) -> None:
    if request.images and "images" not in plan.handled:
        refuse_media(model, request.images[0], plan.handled)
    if request.sounds and "sounds" not in plan.handled:
        refuse_media(model, request.sounds[0], plan.handled)


def _check_generation(model: str, request: GenerationInput, plan: RequestPlan) -> None:
    if request.tool_choice is not None and plan.tool_calls is None and request.constraint is None:
        raise RequestError("this model's graph looks for no tool calls", "tool_choice")
    if request.thinking_budget is not None and plan.reasoning is None:
        raise RequestError(
            "this model's graph looks for no reasoning here, so that none can be bounded",
            "thinking_token_budget",
        )


def refuse_media(model: str, media: MediaInput, handled: Collection[str] = ()) -> NoReturn:
    """Raises RequestError for a part of a message, of a model of text with vLLM's text; `handled` are those
    of `MEDIA` that the model takes.
    """
    taken = [kind for kind in MEDIA if kind in handled]
    takes = "takes" if taken else "is not a multimodal model: it takes"
    error = BadImage if isinstance(media, ImageInput) else RequestError
    raise error(
        f"`{media.where}`: {model} {takes} {' and '.join(['text', *taken])} only, so `{media.kind}` parts "
        "are refused",
        media.where,
    )


def _check_pooling(model: str, request: PoolingInput, plan: RequestPlan) -> None:
    if request.dimensions is not None and "dimensions" not in plan.handled:
        raise RequestError(
            f"Model '{model}' does not support Matryoshka embeddings; dimensions must be unset "
            f"(received dimensions={request.dimensions}).",
            "dimensions",
        )
    if request.results and "results" not in plan.handled:
        raise RequestError(f"Model '{model}' has one kind of vectors", "embedding_kinds")
    if request.stride is not None and "stride" not in plan.handled:
        raise RequestError(f"Model '{model}' reads no texts in windows; leave `stride` out", "stride")
    if request.wanted is not None and "labels" not in plan.handled:
        raise RequestError(
            f"Model '{model}' has labels of its own; `labels` are for models that find them (GLiNER)",
            "labels",
        )
    if request.purpose not in (None, *PURPOSES) and "purpose" not in plan.handled:
        raise RequestError(
            f"Unsupported input_type '{request.purpose}'. This model does not define any input_type task "
            "instructions.",
            "input_type",
        )
