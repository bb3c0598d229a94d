"""Chat messages of a request, and their conversion to the plain dicts of chat templates.

Does not depend on templates, models or HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    StrictStr,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.nodes.text.parsers.tools.earlier_arguments import arguments_in
from pipelines.nodes.text.templates.message_content import text_of
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import AlsoAccepts, Items, field_error
from pipelines.requests.fields.known_fields import (
    IGNORED_IN_CALLS,
    IGNORED_IN_MESSAGES,
    IGNORED_IN_PARTS,
    check_fields,
)
from pipelines.requests.generation.image_parts import IMAGE_PARTS, GivenImage, image_of
from pipelines.requests.generation.sound_parts import (
    SOUND_PARTS,
    GivenSound,
    SoundFile,
    sound_of,
)
from pipelines.values.tasks import ImageInput, SoundInput

TEXT_PARTS = ("text", "input_text", "output_text")
FILE_PART = "file"
THINKING = "thinking"
"""The type of a part of an assistant message that is reasoning."""
SILENT_ROLES = ("assistant", "tool", "function")
"""Roles of messages that may be without content."""
MEDIA_PARTS = (
    *IMAGE_PARTS,
    "image_embeds",
    "image",
    *SOUND_PARTS,
    "video_url",
    "video",
    FILE_PART,
    "input_file",
)


class ContentPart(DeferredModel):
    """One part of a message's content: text, or an image or a sound for a model that takes them."""

    model_config = ConfigDict(extra="allow")
    type: StrictStr = "text"
    text: StrictStr | None = None
    refusal: StrictStr | None = None
    thinking: StrictStr | Items[dict[str, Any]] | None = None
    image_url: GivenImage = None
    uuid: StrictStr | None = None
    audio_url: GivenSound = None
    input_audio: SoundFile | None = None

    def plain(
        self, where: str, images: list[ImageInput] | None = None, sounds: list[SoundInput] | None = None
    ) -> dict[str, str]:
        """The part for a chat template; an image is put into `images` and a sound into `sounds`, if these are
        given.

        Raises RequestError naming `where`.
        """
        others = self.model_extra or {}
        if self.type in SOUND_PARTS and sounds is not None:
            sound = {"audio_url": self.audio_url, "input_audio": self.input_audio}[self.type]
            sounds.append(sound_of(self.type, sound, others, where))
            return {"type": "audio"}
        if self.type in IMAGE_PARTS and images is not None:
            images.append(image_of(self.type, self.image_url, self.uuid, others, where))
            return {"type": "image"}
        if self.type in MEDIA_PARTS and images is not None:
            raise RequestError(
                f"`{where}`: `{self.type}` parts are refused; allowed: {', '.join(TEXT_PARTS)}, for a vision "
                f"model {', '.join(IMAGE_PARTS)}, and for an audio model {', '.join(SOUND_PARTS)}",
                field=where,
            )
        return {"type": "text", "text": self._text(where)}

    def _text(self, where: str) -> str:
        if self.type in MEDIA_PARTS:
            raise RequestError(
                f"`{where}`: this model takes text only, so `{self.type}` parts are refused", field=where
            )
        if self.type not in (*TEXT_PARTS, "refusal"):
            raise RequestError(
                f"`{where}.type`: unknown content part {quoted(self.type)}; allowed: "
                f"{', '.join(TEXT_PARTS)}, refusal, in assistant messages {THINKING}",
                field=f"{where}.type",
            )
        if self.model_extra:
            known = type(self).model_fields
            check_fields(self.model_extra, known, ignored=IGNORED_IN_PARTS, where=f"{where}.")
        name = "refusal" if self.type == "refusal" else "text"
        text = getattr(self, name)
        if text is None:
            raise RequestError(
                f"`{where}.{name}` is required in a part of type `{self.type}`", field=f"{where}.{name}"
            )
        return str(text)


def _content(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, str):
        return value
    if value is not None and not isinstance(value, list):
        raise field_error(f"must be a string or a list of content parts, got {quoted(value)}")
    if value is None:
        return None
    return read([{"text": part} if isinstance(part, str) else part for part in value])


def _arguments(value: Any) -> Any:
    if value is not None and not isinstance(value, str | dict):
        raise field_error(f"must be JSON text or an object, got {quoted(value)}")
    return value


class FunctionCall(DeferredModel):
    """The function of an earlier tool call; `arguments` is JSON text, or the object itself."""

    model_config = ConfigDict(extra="allow")
    name: StrictStr
    arguments: Annotated[Any, AfterValidator(_arguments)] = None


class EarlierCall(DeferredModel):
    """A tool call of an earlier assistant message."""

    model_config = ConfigDict(extra="allow")
    id: StrictStr | None = None
    type: Literal["function"] = "function"
    function: FunctionCall

    def plain(self, where: str) -> dict[str, Any]:
        """The call for a chat template: arguments are an object whenever they are one of JSON, or nearly."""
        for item, place in ((self, where), (self.function, f"{where}.function")):
            if item.model_extra:
                known = type(item).model_fields
                check_fields(item.model_extra, known, ignored=IGNORED_IN_CALLS, where=f"{place}.")
        arguments: Any = self.function.arguments
        if not isinstance(arguments, dict):
            arguments = arguments_in(arguments or "")
        call = {"type": "function", "function": {"name": self.function.name, "arguments": arguments}}
        return call | ({"id": self.id} if self.id is not None else {})


class Message(DeferredModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow")
    role: StrictStr
    content: Annotated[Items[ContentPart] | None, WrapValidator(_content), AlsoAccepts(type="string")] = None
    name: StrictStr | None = None
    refusal: StrictStr | None = None
    reasoning: StrictStr | None = None
    reasoning_content: StrictStr | None = None
    tool_calls: Items[EarlierCall] | None = None
    tool_call_id: StrictStr | None = None
    function_call: FunctionCall | None = None
    prefix: bool | None = None

    def plain(
        self, where: str, images: list[ImageInput] | None = None, sounds: list[SoundInput] | None = None
    ) -> dict[str, Any]:
        """The message for a chat template, with reasoning under both names.

        `content` is text, or a list of parts where the client sent one.  Its images are put into `images` and
        its sounds into `sounds`; None refuses them.  Calls of deprecated functions become tool calls; parts
        of an assistant's reasoning become its reasoning.  Raises RequestError naming the place when content
        is missing or is not text.
        """
        if self.model_extra:
            known = type(self).model_fields
            check_fields(self.model_extra, known, ignored=IGNORED_IN_MESSAGES, where=f"{where}.")
        if self.content is None and self.role not in SILENT_ROLES:
            raise RequestError(
                f"`{where}.content` is required in a message of role {quoted(self.role)}",
                field=f"{where}.content",
            )
        message: dict[str, Any] = {
            "role": self.role,
            "content": self._plain_content(where, images, sounds),
        }
        reasoning = next((text for text in self._reasonings() if text is not None), None)
        if reasoning is not None:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        calls = self.tool_calls or self._function_calls()
        if calls:
            message["tool_calls"] = [call.plain(f"{where}.tool_calls.{i}") for i, call in enumerate(calls)]
        for key in ("name", "tool_call_id"):
            if getattr(self, key) is not None:
                message[key] = getattr(self, key)
        if self.role == "function":
            message |= {"role": "tool", "tool_call_id": _function_id(self.name or "")}
        return message

    def _function_calls(self) -> list[EarlierCall]:
        if self.function_call is None:
            return []
        return [EarlierCall(id=_function_id(self.function_call.name), function=self.function_call)]

    def _reasonings(self) -> tuple[str | None, ...]:
        """What may be its reasoning; that of parts is text, or, as mistralai writes it, a list of texts."""
        given = [part.thinking or "" for part in self._parts() if self._is_reasoning(part)]
        parts = [each if isinstance(each, str) else text_of(each) for each in given]
        return self.reasoning, self.reasoning_content, "\n".join(parts) if parts else None

    def _parts(self) -> list[ContentPart]:
        return self.content if isinstance(self.content, list) else []

    def _is_reasoning(self, part: ContentPart) -> bool:
        return part.type == THINKING and self.role == "assistant"

    @property
    def has_files(self) -> bool:
        """Whether a part of the content is a file."""
        return isinstance(self.content, list) and any(part.type == FILE_PART for part in self.content)

    @property
    def shows_images(self) -> bool:
        """Whether it shows images, or has sounds."""
        return any(part.type in (*IMAGE_PARTS, *SOUND_PARTS) for part in self._parts())

    def _plain_content(
        self, where: str, images: list[ImageInput] | None, sounds: list[SoundInput] | None
    ) -> str | list[dict[str, str]]:
        if isinstance(self.content, str):
            return self.content
        parts = [
            part.plain(f"{where}.content.{i}", images, sounds)
            for i, part in enumerate(self._parts())
            if not self._is_reasoning(part)
        ]
        return parts or self.refusal or ""


def goes_on(messages: Sequence[Message], where: str) -> bool:
    """Whether a reply continues the last message because of its `prefix`, as Mistral's clients write it.

    Raises RequestError, with its place, for the `prefix` of any other message.
    """
    marked = [i for i, message in enumerate(messages) if message.prefix]
    for i in marked:
        if i + 1 < len(messages) or messages[i].role != "assistant":
            raise RequestError(
                f"`{where}.{i}.prefix`: a reply continues only the last message, and only if that is the "
                "assistant's",
                field=f"{where}.{i}.prefix",
            )
    return bool(marked)


def _function_id(name: str) -> str:
    """The id of a call of a deprecated function, which has none: the same for the call and its result."""
    return f"call_{name}"


def _conversation(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Messages, or a whole conversation in token ids."""
    ids = isinstance(value, list) and value and all(type(item) is int for item in value)
    return value if ids else read(value)


Conversation = Annotated[
    Items[Message],
    WrapValidator(_conversation),
    AlsoAccepts(type="array", items={"type": "integer"}, minItems=1),
]
