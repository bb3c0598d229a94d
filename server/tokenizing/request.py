"""The bodies of tokenize and detokenize.  Knows nothing of HTTP.

tokenize has three forms, known by a field: `messages` and `prompt` are vLLM's, `text` is OpenVINO Model
Server's.  A prompt may be of any length here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr, ValidationError

from pipelines.errors import RequestError
from pipelines.worker.pipeline import Pipeline
from server.dialects.rules import Rule, boolean, check, unsigned
from server.generation.requests.chat import ChatRequest
from server.generation.requests.conversation import Message
from server.generation.requests.field_types import TokenIds
from server.generation.requests.known_fields import Refused, check_fields
from server.generation.requests.tools import Tools
from server.http.errors import from_validation
from server.http.request_body import JsonObject
from server.tokenizing import encoding
from server.tokenizing.reply import Detokenized, Tokenized, TokenizedTexts
from server.tokenizing.unsupported_fields import REFUSED_CHAT


class TokenizerRequest(BaseModel):
    """What every form has."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[dict[str, Refused]] = {}
    model: StrictStr | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> TokenizerRequest:
        """A checked request.  Raises RequestError naming the field at fault."""
        try:
            request = cls.model_validate(body)
        except ValidationError as error:
            raise from_validation(error) from None
        check_fields(request.model_extra or {}, cls.model_fields, cls.refused)
        return request

    def answer(self, pipeline: Pipeline) -> BaseModel:
        """Raises RequestError for what the model's graph cannot do."""
        raise NotImplementedError


class TokenizePrompt(TokenizerRequest):
    """vLLM's form for raw text."""

    prompt: StrictStr
    add_special_tokens: StrictBool = True
    return_token_strs: StrictBool | None = None

    def answer(self, pipeline: Pipeline) -> Tokenized:
        (ids,) = encoding.texts_ids(pipeline, [self.prompt], self.add_special_tokens, None)
        return _tokenized(pipeline, ids, bool(self.return_token_strs))


class TokenizeChat(TokenizerRequest):
    """vLLM's form for a conversation: the ids that chat/completions would compute."""

    refused: ClassVar[dict[str, Refused]] = REFUSED_CHAT
    messages: list[Message]
    tools: Tools | None = None
    add_generation_prompt: StrictBool | None = None
    continue_final_message: StrictBool | None = None
    add_special_tokens: StrictBool = False
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: StrictBool | None = None

    def answer(self, pipeline: Pipeline) -> Tokenized:
        names = (
            "messages",
            "tools",
            "add_generation_prompt",
            "continue_final_message",
            "chat_template",
            "chat_template_kwargs",
        )
        chat = ChatRequest.model_construct(**{name: getattr(self, name) for name in names})
        ids = encoding.chat_ids(pipeline, chat.generation(pipeline.max_context), self.add_special_tokens)
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
"""What OpenVINO Model Server asks of its form, in its own words."""


class TokenizeTexts(TokenizerRequest):
    """OpenVINO Model Server's form: one text or several; those of a rerank graph have no special tokens."""

    text: str | list[str]
    max_length: int | None = None
    pad_to_max_length: bool | None = None
    padding_side: str | None = None
    add_special_tokens: bool | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> TokenizerRequest:
        check(body, TEXTS_RULES)
        return super().read(body)

    def answer(self, pipeline: Pipeline) -> TokenizedTexts:
        texts = [self.text] if isinstance(self.text, str) else self.text
        special = self.add_special_tokens is not False and pipeline.task != "rerank"
        rows = encoding.texts_ids(pipeline, texts, special, self.max_length)
        if self.pad_to_max_length:
            rows = self._padded(pipeline, rows)
        return TokenizedTexts(tokens=rows[0] if isinstance(self.text, str) else rows)

    def _padded(self, pipeline: Pipeline, rows: list[list[int]]) -> list[list[int]]:
        length = self.max_length or max(map(len, rows))
        if length * len(rows) > MAX_PADDED_IDS:
            raise RequestError(
                f"{len(rows)} texts of {length} tokens are more than {MAX_PADDED_IDS} ids", field="max_length"
            )
        return encoding.padded(pipeline, rows, length, self.padding_side == "left")


MAX_PADDED_IDS = 1 << 20
FORMS: dict[str, type[TokenizerRequest]] = {"messages": TokenizeChat, "text": TokenizeTexts}
"""Field → the form that it tells; a body with neither is a prompt."""


def read_tokenize(body: JsonObject) -> TokenizerRequest:
    """The form that a body has, checked.  Raises RequestError."""
    form = next((form for name, form in FORMS.items() if name in body.root), TokenizePrompt)
    return form.read(body.root)


class Detokenize(TokenizerRequest):
    """vLLM's detokenize."""

    tokens: TokenIds

    def answer(self, pipeline: Pipeline) -> Detokenized:
        return Detokenized(prompt=encoding.text_of(pipeline, self.tokens))


def _tokenized(pipeline: Pipeline, ids: list[int], with_strings: bool) -> Tokenized:
    strings = encoding.token_strings(pipeline, ids) if with_strings else None
    return Tokenized(count=len(ids), max_model_len=pipeline.max_context, tokens=ids, token_strs=strings)
