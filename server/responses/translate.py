"""A Responses request → a chat request, and the errors of the one in the words of the other.

Knows nothing of HTTP, of the store or of how a reply looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from pipelines.errors import RequestError
from pipelines.tasks import GenerationInput
from server.generation.requests.chat import ChatRequest
from server.http.errors import from_validation
from server.responses.conversation import Conversation
from server.responses.request import ResponseRequest
from server.responses.tools import choose, functions

OURS = (
    (r"messages$", "input"),
    (r"(max_completion_tokens|max_tokens)$", "max_output_tokens"),
    (r"response_format\.json_schema", "text.format"),
    (r"response_format", "text.format"),
    (r"reasoning_effort$", "reasoning.effort"),
    (r"tools\.(\d+)\.function", r"tools.\1"),
    (r"tool_choice\.function", "tool_choice"),
    (r"truncate_prompt_tokens$", "truncation"),
    (r"logprobs$", "include"),
)
"""Field of a chat request → ours; the first that fits counts."""


class Translated:
    """A Responses request as a chat request.  Every error of it names the field that the client sent."""

    def __init__(
        self, request: ResponseRequest, context: list[dict[str, Any]], items: list[dict[str, Any]]
    ) -> None:
        """`context` is what earlier responses hold, `items` this request's own input."""
        self._conversation = conversation(request, context, items)
        self.functions = functions(request.tools or [])
        allowed, self.tool_choice = choose(request.tool_choice, self.functions)
        with self.named():
            self.chat = ChatRequest.model_validate(self._body(request, allowed))

    def _body(self, request: ResponseRequest, allowed: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "messages": self._conversation.messages}
        body |= request.passed()
        body["max_completion_tokens"] = request.max_output_tokens
        if allowed:
            body["tools"] = [{"type": "function", "function": function} for function in allowed]
            body["tool_choice"] = self.tool_choice
        if request.wants_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs or 0}
        if request.format.type != "text":
            body["response_format"] = response_format(request)
        if request.reasoning is not None:
            body["reasoning_effort"] = request.reasoning.effort
        if request.truncation == "auto":
            body["truncate_prompt_tokens"] = -1
        return {name: value for name, value in body.items() if value is not None}

    def generation(self, max_context: int) -> GenerationInput:
        """What the pipeline is asked.  Raises RequestError."""
        return self.chat.generation(max_context)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors raised inside name fields of the Responses request."""
        try:
            yield
        except ValidationError as error:
            raise self.renamed(from_validation(error)) from None
        except RequestError as error:
            raise self.renamed(error) from None

    def renamed(self, error: RequestError) -> RequestError:
        if error.field is None:
            return error
        ours = self._ours(error.field)
        message = error.message.replace(error.field, ours)
        if ours == "max_output_tokens":
            message = re.sub(r"\bmax_tokens\b", ours, message)
        return RequestError(message, field=ours)

    def _ours(self, field: str) -> str:
        found = re.match(r"messages\.(\d+)(.*)", field)
        if found and int(found[1]) < len(self._conversation.places):
            place = self._conversation.places[int(found[1])]
            return place + found[2] if place.startswith("input.") else place
        for pattern, ours in OURS:
            if re.match(pattern, field):
                return re.sub("^" + pattern, ours, field)
        return field


def conversation(
    request: ResponseRequest, context: list[dict[str, Any]], items: list[dict[str, Any]]
) -> Conversation:
    """Instructions, what was said before, and what is said now."""
    made = Conversation()
    if request.instructions is not None:
        made.instruct(request.instructions)
    for item in context:
        made.add(item, "previous_response_id")
    for i, item in enumerate(items):
        made.add(item, f"input.{i}" if isinstance(request.input, list) else "input")
    return made


def response_format(request: ResponseRequest) -> dict[str, Any]:
    wanted = request.format
    if wanted.type != "json_schema":
        return {"type": wanted.type}
    schema = {
        "name": wanted.name or "response",
        "description": wanted.description,
        "schema": wanted.schema_,
        "strict": wanted.strict,
    }
    return {
        "type": "json_schema",
        "json_schema": {name: value for name, value in schema.items() if value is not None},
    }
