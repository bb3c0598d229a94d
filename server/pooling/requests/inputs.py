"""A body with an input: texts, token ids or conversations → what a model reads.

Knows nothing of HTTP or of what is made of the input.
"""

from __future__ import annotations

from typing import Any

from pydantic import StrictBool, StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from server.generation.requests.chat import OWN_FIELDS
from server.pooling.requests.conversations import are_messages, read_conversations
from server.pooling.requests.pooled import PooledRequest
from server.pooling.requests.shapes import (
    Conversations,
    Input,
    check_number,
    check_written,
    read_inputs,
    written_chars,
)

TEMPLATED = ("add_generation_prompt", "continue_final_message", "chat_template", "chat_template_kwargs")
"""Fields for the chat template, which raw prompts do not meet."""


class InputRequest(PooledRequest):
    """A body with `input`, or with `messages`: one conversation or several."""

    input: Input = None
    messages: Conversations = None
    add_special_tokens: StrictBool | None = None
    add_generation_prompt: StrictBool | None = None
    continue_final_message: StrictBool | None = None
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def pooling(self) -> PoolingInput:
        """What is asked of the model.  Raises RequestError."""
        if self.input is not None and self.messages is not None:
            raise RequestError("Give either `input` or `messages`, not both.", field="messages")
        asked = self._conversations() if self._talks else self._prompts()
        check_number(len(asked.prompts) + len(asked.conversations), self._where)
        return asked

    @property
    def _where(self) -> str:
        return "messages" if self.input is None and self.messages is not None else "input"

    @property
    def _talks(self) -> bool:
        return self.messages is not None or are_messages(self.input)

    def _prompts(self) -> PoolingInput:
        for name in TEMPLATED:
            if getattr(self, name):
                raise RequestError(f"`{name}` goes with conversations only", field=name)
        prompts = read_inputs(self.input, "input", self.add_special_tokens is not False)
        return PoolingInput(prompts=prompts, **self.shared())

    def _conversations(self) -> PoolingInput:
        self._check_template()
        where, beside = self._where, written_chars(self.chat_template_kwargs)
        conversations = read_conversations(getattr(self, where), where)
        check_written([beside] * len(conversations), "chat_template_kwargs")
        return PoolingInput(
            conversations=conversations,
            add_special_tokens=bool(self.add_special_tokens),
            add_generation_prompt=bool(self.add_generation_prompt),
            continue_final_message=bool(self.continue_final_message),
            chat_template=self.chat_template,
            template_kwargs=self.chat_template_kwargs or {},
            **self.shared(),
        )

    def _check_template(self) -> None:
        if self.continue_final_message and self.add_generation_prompt:
            raise RequestError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                field="continue_final_message",
            )
        for name in OWN_FIELDS:
            if name in (self.chat_template_kwargs or {}):
                raise RequestError(
                    f"`chat_template_kwargs.{name}` is not allowed: `{name}` is a field of the request",
                    field=f"chat_template_kwargs.{name}",
                )
