"""Builds the initial response of a request, and the error object of a failed response."""

from __future__ import annotations

import time
from typing import Any

from pipelines.base.errors import BraidError
from pipelines.wire.sampling_params import SamplingParams
from server.apis.responses.reply_models import Response, ResponseError
from server.apis.responses.request import ResponseRequest
from server.apis.responses.tool_choice import echo_choice
from server.apis.responses.translate import ChatTranslation

TOO_LONG = "context_length_exceeded"
CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
"""HTTP status of an error → its code inside a response; any other status is a server_error."""


def initial_response(
    request: ResponseRequest,
    translation: ChatTranslation,
    model: str,
    params: SamplingParams,
    stores: bool,
    new_id: str,
) -> Response:
    """The response before any output; `params` are the sampling parameters in effect.

    `new_id` is its id, unless the client chose one.
    """
    return Response(
        id=request.request_id or new_id,
        created_at=int(time.time()),
        status="queued" if request.background else "in_progress",
        background=bool(request.background),
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        metadata=request.metadata or {},
        model=model,
        parallel_tool_calls=translation.chat.parallel_tool_calls is not False,
        previous_response_id=request.previous_response_id,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=request.prompt_cache_retention,
        reasoning=_reasoning(request),
        safety_identifier=request.safety_identifier,
        store=stores,
        temperature=params.temperature,
        text={"format": request.format.echo(), "verbosity": "medium"},
        tool_choice=echo_choice(request.tool_choice, translation.tool_choice, translation.tools),
        tools=translation.echoed_tools,
        top_logprobs=request.top_logprobs or 0,
        top_p=params.top_p,
        truncation=request.truncation or "disabled",
        user=request.user,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
    )


def _reasoning(request: ResponseRequest) -> dict[str, Any] | None:
    if request.reasoning is None:
        return None
    return {"effort": request.reasoning.effort, "summary": None}


def response_error(error: BraidError) -> ResponseError:
    """The `error` of a failed response; a prompt that is too long has a code of its own."""
    code = error.word if error.word == TOO_LONG else CODES.get(error.status, "server_error")
    return ResponseError(code=code, message=error.message)
