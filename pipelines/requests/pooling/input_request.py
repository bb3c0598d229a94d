"""The base of bodies with an input: texts, token ids or conversations."""

from __future__ import annotations

from typing import Any

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.generation.chat import OWN_FIELDS
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.conversations import are_messages, read_conversations, show_images
from pipelines.requests.pooling.input_parsing import (
    Conversations,
    Input,
    check_number,
    check_total_chars,
    json_chars,
    read_inputs,
)
from pipelines.values.tasks import ImageInput, PoolingInput

TEMPLATE_FIELDS = ("add_generation_prompt", "continue_final_message", "chat_template", "chat_template_kwargs")
"""Fields of the chat template, which is not applied to raw prompts."""


class InputRequest(BasePoolingRequest):
    """A body with `input`, or with `messages`: one conversation or several."""

    input: Input = None
    messages: Conversations = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def pooling_input(self) -> PoolingInput:
        """The input of the pipeline.  Raises RequestError."""
        if self.input is not None and self.messages is not None:
            raise RequestError("Give either `input` or `messages`, not both.", field="messages")
        made = self._conversations() if self._has_conversations else self._prompts()
        check_number(len(made.prompts) + len(made.conversations), self._where)
        return made

    def find_image(self) -> bool:
        return self._has_conversations and show_images(getattr(self, self._where))

    @property
    def _where(self) -> str:
        return "messages" if self.input is None and self.messages is not None else "input"

    @property
    def _has_conversations(self) -> bool:
        return self.messages is not None or are_messages(self.input)

    def _prompts(self) -> PoolingInput:
        for name in TEMPLATE_FIELDS:
            if getattr(self, name):
                raise RequestError(f"`{name}` is allowed with conversations only", field=name)
        prompts = read_inputs(self.input, "input", self.add_special_tokens is not False)
        return PoolingInput(prompts=prompts, **self.shared_fields())

    def _conversations(self) -> PoolingInput:
        self._check_template()
        where, num_kwargs_chars = self._where, json_chars(self.chat_template_kwargs)
        images: list[ImageInput] = []
        conversations = read_conversations(getattr(self, where), where, images)
        check_total_chars([num_kwargs_chars] * len(conversations), "chat_template_kwargs")
        return PoolingInput(
            conversations=conversations,
            images=images,
            add_special_tokens=self.add_special_tokens,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=bool(self.continue_final_message),
            chat_template=self.chat_template,
            template_kwargs=self.chat_template_kwargs or {},
            **self.shared_fields(),
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
