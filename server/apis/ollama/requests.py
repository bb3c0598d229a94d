"""The bodies of Ollama's chat and generate → a chat request, or a completion where no template is wanted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import PrivateAttr, StrictBool, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest
from server.apis.ollama.body import TextBody, made, thinking_fields
from server.apis.ollama.images import image_parts
from server.apis.ollama.messages import GivenMessage, chat_messages, goes_on

OWN_TEMPLATE = "prompts are written by the template of the model; send `raw` with a prompt of your own"


class OllamaSource(DeferredModel):
    """What a request keeps of the body that it was made from.

    A reply is at most as long as the context allows.
    """

    _source: TextBody = PrivateAttr()
    _started_s: float = PrivateAttr(default_factory=time.monotonic)

    @property
    def source(self) -> TextBody:
        return self._source

    @property
    def started_s(self) -> float:
        """When the body was read, by a monotonic clock."""
        return self._started_s

    @property
    def default_max_tokens(self) -> int | None:
        return self._source.most_tokens


class OllamaChat(OllamaSource, ChatRequest):  # type: ignore[override]
    """A conversation as a chat request."""


class OllamaCompletion(OllamaSource, CompletionRequest):  # type: ignore[override]
    """A raw prompt as a completion."""


OllamaRequest = OllamaChat | OllamaCompletion


class ChatBody(TextBody):
    """The body of chat."""

    messages: Items[GivenMessage] | None = None
    tools: Items[dict[str, Any]] | None = None

    @property
    def loads_only(self) -> bool:
        return not self.messages

    def request(self) -> OllamaChat:
        """Raises RequestError."""
        self.check()
        fields = self.shared() | thinking_fields(self.think)
        messages = self.messages or []
        fields |= {"messages": chat_messages(messages), "tools": self.tools or None}
        fields |= {"continue_final_message": True} if goes_on(messages) else {}
        fields |= {"logprobs": self.logprobs, "top_logprobs": self.top_logprobs or None}
        chat = made(OllamaChat, fields)
        chat._source = self
        return chat


class GenerateBody(TextBody):
    """The body of generate."""

    refused: ClassVar[Mapping[str, Refused]] = {
        "template": Refused(OWN_TEMPLATE, ("",)),
        "context": Refused("send earlier turns to /api/chat", ([],)),
    }

    prompt: StrictStr | None = None
    suffix: StrictStr | None = None
    system: StrictStr | None = None
    raw: StrictBool | None = None
    images: Items[StrictStr] | None = None

    @property
    def loads_only(self) -> bool:
        return not self.prompt and not self.suffix and not self.images

    def request(self) -> OllamaRequest:
        """Raises RequestError."""
        self.check()
        return self.completion() if self.raw or self.suffix else self._chat()

    def check(self) -> None:
        super().check()
        if self.raw and self.system:
            raise RequestError("raw mode does not support template, system, or context", field="system")

    def _chat(self) -> OllamaChat:
        images = image_parts(self.images or [], "images")
        text = [{"type": "text", "text": self.prompt}] if self.prompt else []
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, {"role": "user", "content": [*images, *text] if images else self.prompt or ""}]
        fields = self.shared() | thinking_fields(self.think) | {"messages": messages}
        fields |= {"logprobs": self.logprobs, "top_logprobs": self.top_logprobs or None}
        chat = made(OllamaChat, fields)
        chat._source = self
        return chat

    def completion(self) -> OllamaCompletion:
        """The prompt as it is, for a model without a template.  Raises RequestError."""
        if self.images:
            raise RequestError("images have their places by the chat template: leave out `raw`", field="raw")
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        fields = self.shared() | {"prompt": self.prompt or "", "suffix": self.suffix or None}
        completion = made(OllamaCompletion, fields | {"logprobs": logprobs})
        completion._source = self
        return completion
