"""Reply models of the tokenizer API, in the shapes of vLLM, OpenVINO Model Server and TEI."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, RootModel

from server.schema.reply_models import Reply


class Tokenized(Reply):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class TokenizedTexts(Reply):
    """A list of token ids for one text, a list of lists for several."""

    tokens: list[int] | list[list[int]]


class TokenizedPiece(Reply):
    """llama.cpp's: `piece` is a text, or bytes that are none."""

    id: int
    piece: str | list[int]


class TokenizedPieces(Reply):
    tokens: list[TokenizedPiece]


class PlacedToken(Reply):
    """`start` and `stop` are bytes of the text; null where the token is none of it."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class PlacedTokens(RootModel[list[list[PlacedToken]]]):
    """The tokens of each text, as text-embeddings-inference sends them."""


class Detokenized(Reply):
    """The text by vLLM's name and by llama.cpp's."""

    prompt: str
    content: str


class TokenizerDescription(Reply):
    """The model's tokenizer_config.json, with its added tokens and chat template."""

    model_config = ConfigDict(extra="allow")
    tokenizer_class: str
    added_tokens_decoder: dict[str, str]
    chat_template: str | None
    __pydantic_extra__: dict[str, Any]
