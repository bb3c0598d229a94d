"""The texts of a request that a judge reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates.message_content import BETWEEN_TEXTS, text_of
from pipelines.values.tasks import GenerationInput

WRITERS = {
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""Role of a message → who wrote it; any other role is a user's."""


def check_texts(request: GenerationInput) -> None:
    """Raise RequestError for a request whose prompt is in token ids, which no judge can read."""
    if request.completion_ids or any(prompt.ids is not None for prompt in request.prompts):
        raise RequestError("this model judges the text of requests: token ids are refused", "prompt")


def asked_texts(request: GenerationInput, roles: Collection[str]) -> list[str]:
    """What the writers of `roles` wrote: each of the messages, or the prompts; and the reply's beginning."""
    if request.messages is None:
        return [prompt.text for prompt in request.prompts if prompt.text]
    texts = [text for writer, text in _written(request) if writer in roles]
    if "system" in roles:
        texts += _strings([request.tools, request.template_kwargs])
    begun = begun_reply(request)
    return [*texts, begun] if begun and "assistant" not in roles else texts


def conversation(request: GenerationInput, roles: Collection[str]) -> list[dict[str, Any]]:
    """The texts of `roles` and of models in a request, as a guard model reads them: by turns of a user and
    an assistant.
    """
    if request.messages is None:
        return _by_turns([("user", prompt.text) for prompt in request.prompts if prompt.text])
    said = [(writer, text) for writer, text in _written(request) if writer in roles or writer == "assistant"]
    return _by_turns([("assistant" if writer == "assistant" else "user", text) for writer, text in said])


def begun_reply(request: GenerationInput) -> str:
    """The beginning of the reply, where the request brings it."""
    if not (request.continue_final_message and request.messages):
        return ""
    return text_of(request.messages[-1].get("content"))


def with_reply(messages: list[dict[str, Any]], reply: str, continues: bool) -> list[dict[str, Any]]:
    """A conversation with a reply, which stands for its last message where it `continues` that."""
    answer = {"role": "assistant", "content": reply}
    return [*(messages[:-1] if continues else messages), answer]


def _written(request: GenerationInput) -> Iterator[tuple[str, str]]:
    for message in request.messages or ():
        if text := text_of(message.get("content")):
            yield WRITERS.get(str(message.get("role")), "user"), text


def _by_turns(texts: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Messages; neighbours of one role are one."""
    turns: list[dict[str, Any]] = []
    for role, text in texts:
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += BETWEEN_TEXTS + text
        else:
            turns.append({"role": role, "content": text})
    return turns


def _strings(value: Any) -> list[str]:
    """All texts in JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) and value else []
