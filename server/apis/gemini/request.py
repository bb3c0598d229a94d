"""The bodies of generateContent and countTokens → a chat request.

A declared field is honoured; `unsupported_fields.py` lists the others.  Does not depend on HTTP.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PrivateAttr, ValidationError

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from server.apis.gemini.contents import Content, chat_messages
from server.apis.gemini.fields import GeminiObject
from server.apis.gemini.schemas import json_schema
from server.apis.gemini.tools import GeminiTool, ToolConfig, chat_tools
from server.apis.gemini.unsupported_fields import IGNORED, IGNORED_IN_CONFIG, REFUSED, REFUSED_IN_CONFIG

JSON, TEXT, ENUM = "application/json", "text/plain", "text/x.enum"
SAME = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop",
    "candidate_count": "n",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Field of `generationConfig` → the field of a chat request that means the same."""


class ThinkingConfig(GeminiObject):
    """Whether and how long the model thinks, and whether the client reads that."""

    include_thoughts: bool | None = None
    thinking_budget: int | None = None
    thinking_level: Literal["minimal", "low", "medium", "high", "MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = (
        None
    )

    def chat_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.thinking_budget == 0:
            fields["enable_thinking"] = False
        elif self.thinking_budget is not None and self.thinking_budget > 0:
            fields["thinking_token_budget"] = self.thinking_budget
        if self.thinking_level is not None:
            fields["reasoning_effort"] = self.thinking_level.lower()
        return fields


class GenerationConfig(GeminiObject):
    """How a reply is generated; values are checked where the chat request is made."""

    temperature: Any = None
    top_p: Any = None
    top_k: Any = None
    candidate_count: Any = None
    max_output_tokens: Any = None
    stop_sequences: Any = None
    seed: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    response_mime_type: Literal["application/json", "text/plain", "text/x.enum"] | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    thinking_config: ThinkingConfig | None = None

    def chat_fields(self) -> dict[str, Any]:
        """The fields of a chat request.  Raises RequestError."""
        where = "generationConfig."
        check_fields(self.others, self.names(), REFUSED_IN_CONFIG, IGNORED_IN_CONFIG, where)
        given = {SAME[name]: value for name in SAME if (value := getattr(self, name)) is not None}
        thinking = self.thinking_config.chat_fields() if self.thinking_config else {}
        return given | thinking | self._format()

    def _format(self) -> dict[str, Any]:
        schema = self.response_json_schema or json_schema(self.response_schema)
        if self.response_mime_type == ENUM:
            if not isinstance(schema, dict) or not schema.get("enum"):
                raise _fault("responseMimeType", f"{ENUM} needs a responseSchema with `enum`")
            return {"structured_outputs": {"choice": schema["enum"]}}
        if self.response_mime_type != JSON:
            if schema is not None:
                raise _fault("responseSchema", f"it needs the responseMimeType {JSON}")
            return {}
        if schema is None:
            return {"response_format": {"type": "json_object"}}
        named = {"name": "output", "schema": schema}  # Gemini ignores what it does not hold
        return {"response_format": {"type": "json_schema", "json_schema": named}}


def _fault(name: str, text: str) -> RequestError:
    where = f"generationConfig.{name}"
    return RequestError(f"`{where}`: {text}", where)


class GeminiRequest(GeminiObject):
    """The body of generateContent."""

    contents: Items[Content]
    system_instruction: Content | None = None
    tools: Items[GeminiTool] | None = None
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None

    @property
    def config(self) -> GenerationConfig:
        return self.generation_config or GenerationConfig()

    @property
    def shows_thoughts(self) -> bool:
        thinking = self.config.thinking_config
        return bool(thinking and thinking.include_thoughts)

    def chat(self, model: str, stream: bool = False) -> GeminiChat:
        """Makes a chat request of it.  Raises RequestError for what has no equivalent there."""
        check_fields(self.others, self.names(), REFUSED, IGNORED)
        if not self.contents:
            raise RequestError("`contents`: at least one content is required", "contents")
        body = {
            "model": model,
            "stream": stream,
            "messages": chat_messages(self.contents, self.system_instruction),
            **chat_tools(self.tools or [], self.tool_config),
            **self.config.chat_fields(),
        }
        try:
            chat = GeminiChat.model_validate(body)
        except ValidationError as error:
            raise from_validation(error) from None
        chat._source = self
        return chat


class GeminiCountRequest(GeminiObject):
    """The body of countTokens: contents alone, or a whole request."""

    contents: Items[Content] | None = None
    generate_content_request: GeminiRequest | None = None

    def chat(self, model: str) -> GeminiChat:
        """Makes a chat request of it.  Raises RequestError for what has no equivalent there."""
        return (self.generate_content_request or GeminiRequest(contents=self.contents or [])).chat(model)


class GeminiChat(ChatRequest):
    """A body of generateContent as a chat request."""

    _source: GeminiRequest = PrivateAttr()

    @property
    def source(self) -> GeminiRequest:
        return self._source
