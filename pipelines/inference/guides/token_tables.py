"""A model's tokens as guides need them, made once from its tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from llguidance import LLTokenizer
from numpy.typing import NDArray


class TokenTable:
    """The tokens of a model: `vocab_size` logits, of which `end_ids` end a sequence, `end_id` where one is
    chosen for the model: the highest, since families add the end of a turn after the end of a text.

    `tokenizer`, for grammars, never encodes text as a special token: to a grammar these are tokens, not text.
    For this, special tokens are renamed to names that do not occur in text.  Masks are int32[num_words]; id t
    is bit t % 32 of word t // 32.
    """

    def __init__(self, tokenizer_json: bytes, vocab_size: int, end_ids: Collection[int]) -> None:
        """`tokenizer_json`: the content of the file.  Raises ValueError for a tokenizer whose tokens have no
        bytes of their own.
        """
        self.vocab_size = vocab_size
        settings = json.loads(tokenizer_json)
        self._special = _rename_special_tokens(settings)
        self.tokenizer = _open(json.dumps(settings), vocab_size, sorted(end_ids))
        self.end_ids = frozenset(end_ids) or frozenset([self.tokenizer.eos_token])
        self.end_id = max(self.end_ids)

    @property
    def num_words(self) -> int:
        return -(-self.vocab_size // 32)

    @cached_property
    def end_bits(self) -> NDArray[np.int32]:
        bits = np.zeros(self.num_words * 32, np.uint8)
        bits[sorted(self.end_ids)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def no_bits(self) -> NDArray[np.int32]:
        """A mask that allows nothing."""
        return np.zeros(self.num_words, np.int32)

    def completing(self, text: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The tokens that complete a text and go on: how many of its bytes are written before the token, the
        id, and what follows the text.
        """
        ids = [token_id for token_id in range(self.vocab_size) if text[-1:] in self.bytes_of(token_id)[:-1]]
        for written in range(len(text)):
            for token_id in ids:
                _, found, rest = (text[:written] + self.bytes_of(token_id)).partition(text)
                if found and rest:
                    yield written, token_id, rest

    def spell(self, text: str) -> list[int]:
        """The ids of a text as the model writes it; a special token is itself."""
        for token_id, content in self._special.items():
            text = text.replace(content, _name(token_id))
        return self.tokenizer.tokenize_str(text, parse_special=True)

    def bytes_of(self, token_id: int) -> bytes:
        """The text of a token; of a special token as the model's tokenizer writes it."""
        if token_id in self._special:
            return self._special[token_id].encode()
        return self.tokenizer.decode_bytes([token_id])


def _rename_special_tokens(settings: dict[str, Any]) -> dict[int, str]:
    """Rename the special tokens of a tokenizer.json; return their original names, the longest first."""
    contents: dict[int, str] = {}
    vocab = settings.get("model", {}).get("vocab")
    for token in settings.get("added_tokens") or []:
        content = token["content"]
        if not token.get("special") and (content[:1], content[-1:]) != ("<", ">"):
            continue  # the library takes <…> for special as well
        contents[token["id"]] = content
        token["content"] = _name(token["id"])
        if isinstance(vocab, dict) and content in vocab:
            vocab[token["content"]] = vocab.pop(content)
    return dict(sorted(contents.items(), key=lambda pair: -len(pair[1])))


def _name(token_id: int) -> str:
    return f"<\ue000{token_id}\ue001>"


def _open(text: str, vocab_size: int, end_ids: list[int]) -> LLTokenizer:
    """The tokenizer.  Logits beyond the last token, which many models have, are never allowed."""
    try:
        return LLTokenizer(text, n_vocab=vocab_size, eos_token=end_ids or None)
    except Exception as error:  # the library raises its own kinds
        raise ValueError(f"its tokens cannot be constrained: {error}") from error
