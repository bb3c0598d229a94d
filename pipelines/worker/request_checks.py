"""Requests that a graph cannot serve as a whole, because none of its nodes handles one of their fields."""

from __future__ import annotations

from typing import Any, NoReturn

from pipelines.errors import RequestError
from pipelines.nodes.request_plan import RequestPlan
from pipelines.tasks import PURPOSES, GenerationInput, ImageInput, PoolingInput, PromptInput


def check_handled(model: str, request: Any, plan: RequestPlan) -> None:
    """Raise RequestError for a field that no node of the model's graph handles."""
    if isinstance(request, PromptInput) and request.images and "images" not in plan.handled:
        refuse_image(model, request.images[0])
    if isinstance(request, GenerationInput):
        _check_generation(model, request, plan)
    elif isinstance(request, PoolingInput):
        _check_pooling(model, request, plan)


def _check_generation(model: str, request: GenerationInput, plan: RequestPlan) -> None:
    if request.tool_choice is not None and plan.tool_calls is None and request.constraint is None:
        raise RequestError("this model's graph looks for no tool calls", "tool_choice")
    if request.thinking_budget is not None and plan.reasoning is None:
        raise RequestError(
            "this model's graph looks for no reasoning here, so that none can be bounded",
            "thinking_token_budget",
        )


def refuse_image(model: str, image: ImageInput) -> NoReturn:
    """Raises RequestError, with vLLM's text."""
    raise RequestError(
        f"`{image.where}`: {model} is not a multimodal model: it takes text only, so `{image.kind}` parts "
        "are refused",
        image.where,
    )


def _check_pooling(model: str, request: PoolingInput, plan: RequestPlan) -> None:
    if request.dimensions is not None and "dimensions" not in plan.handled:
        raise RequestError(
            f"Model '{model}' does not support Matryoshka embeddings; dimensions must be unset "
            f"(received dimensions={request.dimensions}).",
            "dimensions",
        )
    if request.purpose not in (None, *PURPOSES) and "purpose" not in plan.handled:
        raise RequestError(
            f"Unsupported input_type '{request.purpose}'. This model does not define any input_type task "
            "instructions.",
            "input_type",
        )
