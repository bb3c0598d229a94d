"""The texts of a request that a judge reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates.message_content import Content, joined, parts_of, text_of
from pipelines.values.tasks import GenerationInput, ImageInput, MediaInput

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


def check_media(request: GenerationInput, sees: bool) -> None:
    """Raise RequestError for an image or a sound that the judge does not read; of images none does unless it
    `sees`.
    """
    unread: list[MediaInput] = [*([] if sees else request.images), *request.sounds]
    if unread:
        media = unread[0]
        raise RequestError(
            f"`{media.where}`: this model judges requests, and its judge reads no `{media.kind}` parts",
            media.where,
        )


def asked_texts(request: GenerationInput, roles: Collection[str]) -> list[str]:
    """What the writers of `roles` wrote: each of the messages, or the prompts; and the reply's beginning."""
    if request.messages is None:
        return [prompt.text for prompt in request.prompts if prompt.text]
    texts = [text for writer, text in _written(request) if writer in roles]
    if "system" in roles:
        texts += _strings([request.tools, request.template_kwargs])
    begun = begun_reply(request)
    return [*texts, begun] if begun and "assistant" not in roles else texts


class Conversation(NamedTuple):
    """What a guard model reads: messages by turns of a user and an assistant, and the images in them."""

    messages: list[dict[str, Any]]
    images: list[ImageInput]


def conversation(request: GenerationInput, roles: Collection[str], sees: bool = False) -> Conversation:
    """What the writers of `roles` and models wrote in a request, with its images for a guard that `sees`."""
    if request.messages is None:
        turns = [("user", prompt.text) for prompt in request.prompts if prompt.text]
        return Conversation(_by_turns(turns), [])
    images, turns, shown = iter(request.images), [], []
    for message in request.messages:
        writer, content = _writer(message), message.get("content")
        own = [next(images) for part in parts_of(content) if part.get("type") == "image"]
        said = content if sees and own else text_of(content)
        if said and (writer in roles or writer == "assistant"):
            turns.append(("assistant" if writer == "assistant" else "user", said))
            shown += own if sees else []
    return Conversation(_by_turns(turns), shown)


def begun_reply(request: GenerationInput) -> str:
    """The beginning of the reply, where the request brings it."""
    if not (request.continue_final_message and request.messages):
        return ""
    return text_of(request.messages[-1].get("content"))


def with_reply(shown: Conversation, reply: str, continues: bool) -> Conversation:
    """A conversation with a reply, which stands for its last message where it `continues` that."""
    before = shown.messages[:-1] if continues else shown.messages
    return shown._replace(messages=[*before, {"role": "assistant", "content": reply}])


def _written(request: GenerationInput) -> Iterator[tuple[str, str]]:
    for message in request.messages or ():
        if text := text_of(message.get("content")):
            yield _writer(message), text


def _writer(message: Mapping[str, Any]) -> str:
    return WRITERS.get(str(message.get("role")), "user")


def _by_turns(said: Sequence[tuple[str, Content]]) -> list[dict[str, Any]]:
    """Messages; neighbours of one role are one."""
    turns: list[dict[str, Any]] = []
    for role, content in said:
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] = joined(turns[-1]["content"], content)
        else:
            turns.append({"role": role, "content": content})
    return turns


def _strings(value: Any) -> list[str]:
    """All texts in JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) and value else []
