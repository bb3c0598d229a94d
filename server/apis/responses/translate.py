"""Translates a Responses request to a chat request, and the field names in its errors back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from pipelines.base.errors import RequestError
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import GenerationInput
from server.apis.responses.chat_messages import ChatMessages
from server.apis.responses.request import ResponseRequest
from server.apis.responses.tool_choice import select_tools
from server.apis.responses.tool_table import ToolTable
from server.apis.responses.tools import check_any, read_tools

RENAMED_FIELDS = (
    (r"messages$", "input"),
    (r"(max_completion_tokens|max_tokens)$", "max_output_tokens"),
    (r"response_format\.json_schema", "text.format"),
    (r"response_format", "text.format"),
    (r"reasoning_effort$", "reasoning.effort"),
    (r"tools\.(\d+)\.function", r"tools.\1"),
    (r"tool_choice\.function", "tool_choice"),
    (r"logprobs$", "include"),
)
"""Field of a chat request → field of the Responses request; the first match is used."""


class ChatTranslation:
    """A Responses request as a chat request.  Its errors name the fields that the client sent."""

    def __init__(
        self,
        request: ResponseRequest,
        context: list[dict[str, Any]],
        items: list[dict[str, Any]],
        takes_images: bool = True,
    ) -> None:
        """`context` are the items of earlier responses, `items` those of this request's input.

        Images in results of tools are left out for models that take none.
        """
        self._streams = bool(request.stream)
        self.truncates = request.truncation == "auto"
        self._shown: list[int] | None = None  # the places of the messages of the last input
        declared = read_tools(request.tools or [], "tools")
        self.echoed_tools = declared.echoes
        self.tools = ToolTable(declared.tools)
        self._chat_messages = ChatMessages(self.tools, takes_images)
        add_items(self._chat_messages, request, context, items)
        if not self.tools.names:
            check_any(request.tools or [], declared)
        self.compacts = bool(items) and items[-1]["type"] == "compaction_trigger"
        choice = "none" if self.compacts else request.tool_choice
        allowed, self.tool_choice = select_tools(choice, self.tools)
        with self.renamed_errors():
            self.chat = ChatRequest.model_validate(self._body(request, allowed))

    def _body(self, request: ResponseRequest, allowed: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "messages": self._chat_messages.messages}
        body |= request.passed()
        body["max_completion_tokens"] = request.max_output_tokens
        if allowed:
            body["tools"] = self.tools.chat_tools(allowed)
            body["tool_choice"] = self.tool_choice
        if request.wants_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs or 0}
        if request.format.type != "text":
            body["response_format"] = response_format(request)
        if request.reasoning is not None:
            body["reasoning_effort"] = request.reasoning.effort
        return {name: value for name, value in body.items() if value is not None}

    def generation(
        self, max_context: int, chat: ChatRequest | None = None, places: list[int] | None = None
    ) -> GenerationInput:
        """The input of the pipeline, or that of a shorter `chat`, which has the messages at `places` alone.

        Raises RequestError.
        """
        self._shown = places
        return replace(
            (chat or self.chat).generation(max_context),
            streams=self._streams,
            later_tools=frozenset(self.tools.later),
            text_formats=self.tools.text_formats,
        )

    @contextmanager
    def renamed_errors(self) -> Iterator[None]:
        """Errors raised inside the block name fields of the Responses request."""
        try:
            yield
        except ValidationError as error:
            raise self.rename(from_validation(error)) from None
        except RequestError as error:
            raise self.rename(error) from None

    def rename(self, error: RequestError) -> RequestError:
        """The error with the client's field names in its text and its `field`."""
        if error.field is None:
            return error
        field = self._client_field(error.field)
        message = error.message.replace(error.field, field)
        if field == "max_output_tokens":
            message = re.sub(r"\bmax_tokens\b", field, message)
        return type(error)(message, field=field, word=error.word)

    def _client_field(self, field: str) -> str:
        in_message = re.match(r"messages\.(\d+)(.*)", field)
        places = self._chat_messages.places
        places = places if self._shown is None else [places[at] for at in self._shown]
        if in_message and int(in_message[1]) < len(places):
            place = places[int(in_message[1])]
            return place + in_message[2] if place.startswith("input.") else place
        for pattern, client_field in RENAMED_FIELDS:
            if re.match(pattern, field):
                return re.sub("^" + pattern, client_field, field)
        return field


def add_items(
    messages: ChatMessages,
    request: ResponseRequest,
    context: list[dict[str, Any]],
    items: list[dict[str, Any]],
) -> None:
    """Add the instructions, the earlier responses and the input, in this order."""
    if request.instructions is not None:
        messages.add_instructions(request.instructions)
    for item in context:
        messages.add(item, "previous_response_id")
    for i, item in enumerate(items):
        messages.add(item, f"input.{i}" if isinstance(request.input, list) else "input")


def response_format(request: ResponseRequest) -> dict[str, Any]:
    """`text.format` as the `response_format` of a chat request."""
    wanted = request.format
    if wanted.type != "json_schema":  # llama.cpp's form has a schema too
        return {"type": wanted.type} | ({} if wanted.schema_ is None else {"schema": wanted.schema_})
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
