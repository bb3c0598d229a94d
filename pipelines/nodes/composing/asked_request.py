"""Requests for text that lines of composed graphs make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.nodes.composing.readable import last_question
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput, MediaInput


def with_question(messages: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """The messages with `text` in place of their last question, or at their end where they have none."""
    asked = {"role": "user", "content": text}
    place = last_question(messages)
    before, after = (messages, []) if place is None else (messages[:place], messages[place + 1 :])
    return [*map(dict, before), asked, *map(dict, after)]


def for_client(
    request: GenerationInput, messages: list[dict[str, Any]] | None, prompt: str
) -> GenerationInput:
    """The client's own request with other messages, or with a prompt where these are None: what it sets for
    the reply holds.  Raises RequestError for what a template leaves no place for.
    """
    if request.images or request.sounds:
        shown: list[MediaInput] = [*request.images, *request.sounds]
        media = shown[0]
        raise RequestError(
            f"`{media.where}`: this model's graph writes its prompt by a template, which shows no "
            f"`{media.kind}` parts",
            media.where,
        )
    if request.continue_final_message or request.completion_ids:
        raise RequestError(
            "this model's graph writes the last message itself: none can be continued", "messages"
        )
    if any(prompt.ids is not None or prompt.gap is not None for prompt in request.prompts):
        raise RequestError(
            "this model's graph writes its prompt by a template: it takes no token ids and no `suffix`",
            "prompt",
        )
    if len(request.prompts) > 1:
        raise RequestError("this model's graph answers one prompt at a time", "prompt")
    prompts = [] if messages is not None else [Prompt(text=prompt, add_special_tokens=True)]
    return replace(request, messages=messages, prompts=prompts)


def of_line(messages: list[dict[str, Any]] | None, prompt: str, **fields: Any) -> GenerationInput:
    """A request that the line makes by its own settings."""
    prompts = [] if messages is not None else [Prompt(text=prompt, add_special_tokens=True)]
    return GenerationInput(messages=messages, prompts=prompts, **fields)
