"""The request bodies of tokenize and detokenize, and their replies.

tokenize has four formats, recognized by a field: `messages` and `prompt` are vLLM's, `text` is OpenVINO
Model Server's, `content` llama.cpp's, `inputs` that of text-embeddings-inference.  A prompt may be longer
here than the model takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items, TokenIds
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.conversation import Message
from pipelines.requests.generation.image_parts import WithoutMedia
from pipelines.requests.generation.tools import Tools
from pipelines.values.tasks import ImageInput, SoundInput
from pipelines.worker import encoding
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.request_images import Files, with_files
from server.apis.tokenizing.reply import (
    Detokenized,
    PlacedToken,
    PlacedTokens,
    Tokenized,
    TokenizedPiece,
    TokenizedPieces,
    TokenizedTexts,
)
from server.apis.tokenizing.unsupported_fields import IGNORED_CHAT, REFUSED_CHAT
from server.dialects.rules import Rule, boolean, check, unsigned
from server.http.request_body import JsonObject


class TokenizerRequest(WithoutMedia, DeferredModel):
    """The base of all tokenizer requests."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = {}
    ignored: ClassVar[Mapping[str, str]] = {}
    compiles: ClassVar[bool] = True  # padding makes many ids of a short text
    model: StrictStr | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> TokenizerRequest:
        """Parse and check a body.  Raises RequestError naming the field at fault."""
        try:
            request = cls.model_validate(body)
        except ValidationError as error:
            raise from_validation(error) from None
        check_fields(request.model_extra or {}, cls.model_fields, cls.refused, cls.ignored)
        return request

    def reply(self, pipeline: Pipeline, files: Files) -> BaseModel:
        """The reply for a model; `files` are the images that were fetched.  Raises
        RequestError when its graph lacks a node for it.
        """
        raise NotImplementedError


class TokenizePrompt(TokenizerRequest):
    """vLLM's format for raw text."""

    prompt: StrictStr
    add_special_tokens: bool = True
    return_token_strs: bool | None = None

    def reply(self, pipeline: Pipeline, files: Files) -> Tokenized:
        (ids,) = encoding.tokenize_texts(
            pipeline, [self.prompt], self.add_special_tokens, max_length=None, field="prompt"
        )
        return _tokenized(pipeline, ids, bool(self.return_token_strs))


class TokenizeContent(TokenizerRequest):
    """llama.cpp's format for raw text."""

    content: StrictStr
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False

    def reply(self, pipeline: Pipeline, files: Files) -> TokenizedTexts | TokenizedPieces:
        if self.parse_special:
            (ids,) = encoding.tokenize_texts(
                pipeline, [self.content], self.add_special, max_length=None, field="content"
            )
        else:
            ids = encoding.plain_ids(pipeline, self.content, self.add_special)
        if not self.with_pieces:
            return TokenizedTexts(tokens=ids)
        strings = encoding.token_bytes(pipeline, ids)
        return TokenizedPieces(tokens=[_piece(token, text) for token, text in zip(ids, strings, strict=True)])


def _piece(token: int, data: bytes) -> TokenizedPiece:
    """A token with its text, or with its bytes where these are no text."""
    try:
        return TokenizedPiece(id=token, piece=data.decode())
    except UnicodeDecodeError:
        return TokenizedPiece(id=token, piece=[*data])


class TokenizeChat(TokenizerRequest):
    """vLLM's format for a conversation: the token ids that chat/completions would use."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED_CHAT
    ignored: ClassVar[Mapping[str, str]] = IGNORED_CHAT
    messages: Items[Message]
    tools: Tools | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool = False
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    enable_thinking: bool | None = None
    return_token_strs: bool | None = None

    @property
    def shows_images(self) -> bool:
        return any(message.shows_images for message in self.messages)

    @property
    def images(self) -> list[ImageInput]:
        return self.chat.images

    @property
    def sounds(self) -> list[SoundInput]:
        return self.chat.sounds

    @property
    def chat(self) -> ChatRequest:
        """The chat request with the same fields."""
        names = (
            "messages",
            "tools",
            "add_generation_prompt",
            "continue_final_message",
            "chat_template",
            "chat_template_kwargs",
            "enable_thinking",
        )
        return ChatRequest.model_construct(**{name: getattr(self, name) for name in names})

    def reply(self, pipeline: Pipeline, files: Files) -> Tokenized:
        generation = with_files(self.chat.generation(pipeline.max_context), files)
        ids = encoding.chat_ids(pipeline, generation, self.add_special_tokens)
        return _tokenized(pipeline, ids, bool(self.return_token_strs))


NOT_TEXTS = "text should be string, array of strings or array of integers"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _one_kind(value: Any) -> bool:
    return not isinstance(value, list) or len({type(item) for item in value}) == 1


def _every(holds: Any) -> Any:
    return lambda value: not isinstance(value, list) or all(map(holds, value))


TEXTS_RULES: list[Rule] = [
    Rule("text", lambda value: value is not None, "text field is required", null=True),
    Rule("text", lambda value: isinstance(value, str | list), NOT_TEXTS),
    Rule("text", lambda value: value != [], "text array should not be empty"),
    Rule("text", _every(lambda item: item != []), "inner arrays in text should not be empty"),
    Rule("text", _one_kind, "text must be homogeneous"),
    Rule(
        "text",
        _every(lambda item: _whole(item) or isinstance(item, str | list)),
        "every element in text array should be either string or int",
    ),
    Rule("text", _every(lambda item: isinstance(item, str)), "Input should be string or array of strings"),
    Rule("max_length", unsigned, "max_length should be unsigned integer"),
    Rule("max_length", lambda value: value > 0, "max_length should be greater than 0"),
    Rule("max_length", lambda value: value < 2**20, "max_length should be less than 1048576"),
    Rule("pad_to_max_length", boolean, "pad_to_max_length should be boolean"),
    Rule(
        "padding_side",
        lambda value: isinstance(value, str),
        "padding_side should be string, either left or right",
    ),
    Rule(
        "padding_side",
        lambda value: value in ("left", "right"),
        "padding_side should be either left or right",
    ),
    Rule("add_special_tokens", boolean, "add_special_tokens should be boolean"),
]
"""OpenVINO Model Server's validation rules, with its error texts."""


class TokenizeTexts(TokenizerRequest):
    """OpenVINO Model Server's format: one text or several; a rerank graph adds no special tokens."""

    text: str | Items[str]
    max_length: int | None = None
    pad_to_max_length: bool | None = None
    padding_side: str | None = None
    add_special_tokens: bool | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> TokenizerRequest:
        check(body, TEXTS_RULES)
        return super().read(body)

    def reply(self, pipeline: Pipeline, files: Files) -> TokenizedTexts:
        texts = [self.text] if isinstance(self.text, str) else self.text
        special = self.add_special_tokens is not False and pipeline.task != "rerank"
        ids = encoding.tokenize_texts(pipeline, texts, special, self.max_length, "text")
        if self.pad_to_max_length:
            ids = self._padded(pipeline, ids)
        return TokenizedTexts(tokens=ids[0] if isinstance(self.text, str) else ids)

    def _padded(self, pipeline: Pipeline, ids: list[list[int]]) -> list[list[int]]:
        length = self.max_length or max(map(len, ids))
        if length * len(ids) > MAX_PADDED_IDS:
            raise RequestError(
                f"{len(ids)} texts padded to {length} tokens are more than {MAX_PADDED_IDS} ids; send fewer "
                "texts or a smaller `max_length`",
                field="max_length",
            )
        return encoding.pad(pipeline, ids, length, self.padding_side == "left")


class TokenizeInputs(TokenizerRequest):
    """The format of text-embeddings-inference: a text or several, whose tokens come with their places."""

    inputs: StrictStr | Items[StrictStr]
    add_special_tokens: bool = True
    prompt_name: StrictStr | None = None

    def reply(self, pipeline: Pipeline, files: Files) -> PlacedTokens:
        texts = [self.inputs] if isinstance(self.inputs, str) else self.inputs
        texts = encoding.with_purpose(pipeline, texts, self.prompt_name)
        found = encoding.placed_tokens(pipeline, texts, self.add_special_tokens, "inputs")
        return PlacedTokens([[PlacedToken(**token._asdict()) for token in tokens] for tokens in found])


MAX_PADDED_IDS = 1 << 20
FORMATS: dict[str, type[TokenizerRequest]] = {
    "messages": TokenizeChat,
    "text": TokenizeTexts,
    "content": TokenizeContent,
    "inputs": TokenizeInputs,
}
"""Field → the format of a body with that field; other bodies are prompts."""


def read_tokenize(body: JsonObject) -> TokenizerRequest:
    """The checked request of a tokenize body.  Raises RequestError."""
    model = next((model for name, model in FORMATS.items() if name in body.root), TokenizePrompt)
    return model.read(body.root)


class DetokenizeRequest(TokenizerRequest):
    """vLLM's detokenize."""

    tokens: TokenIds

    def reply(self, pipeline: Pipeline, files: Files) -> Detokenized:
        text = encoding.decode(pipeline, self.tokens)
        return Detokenized(prompt=text, content=text)


def _tokenized(pipeline: Pipeline, ids: list[int], with_strings: bool) -> Tokenized:
    strings = encoding.token_strings(pipeline, ids) if with_strings else None
    return Tokenized(count=len(ids), max_model_len=pipeline.max_context, tokens=ids, token_strs=strings)
