"""What guides need to know of a model's tokens, made once of its tokenizer.json.  Knows no grammar."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

import numpy as np
from llguidance import LLTokenizer
from numpy.typing import NDArray


class TokenTable:
    """The tokens of a model: `vocab_size` logits, of which `end_ids` end a sequence.

    `tokenizer` writes text as the model would.  `plain`, for grammars, knows the same tokens, but writes no
    text with a special one: to a grammar a special token is no text, but a token.
    Masks are int32[num_words]; id t is bit t % 32 of word t // 32.
    """

    def __init__(self, tokenizer_json: Path, vocab_size: int, end_ids: Collection[int]) -> None:
        """Raises ValueError for a tokenizer whose tokens have no bytes of their own."""
        self.vocab_size = vocab_size
        self.end_ids = frozenset(end_ids)
        text, ends = tokenizer_json.read_text(encoding="utf-8"), sorted(end_ids)
        self.tokenizer = _open(text, vocab_size, ends)
        self.plain = _open(_unspeakable(text), vocab_size, ends)

    @property
    def num_words(self) -> int:
        return -(-self.vocab_size // 32)

    @cached_property
    def end_bits(self) -> NDArray[np.int32]:
        bits = np.zeros(self.num_words * 32, np.uint8)
        bits[sorted(self.end_ids)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def spell(self, text: str) -> list[int]:
        """The ids of a text as the model would write it; a special token is itself."""
        return self.tokenizer.tokenize_str(text, parse_special=True)

    def bytes_of(self, token_id: int) -> bytes:
        return self.tokenizer.decode_bytes([token_id])


def _unspeakable(text: str) -> str:
    """A tokenizer.json whose special tokens have names that no text holds."""
    settings = json.loads(text)
    vocab = settings.get("model", {}).get("vocab")
    for token in settings.get("added_tokens") or []:
        content = token["content"]
        if not token.get("special") and (content[:1], content[-1:]) != ("<", ">"):
            continue  # the library takes <…> for special as well
        token["content"] = f"<\ue000{token['id']}\ue001>"
        if isinstance(vocab, dict) and content in vocab:
            vocab[token["content"]] = vocab.pop(content)
    return json.dumps(settings)


def _open(text: str, vocab_size: int, end_ids: list[int]) -> LLTokenizer:
    """With more logits than tokens, as models often have, the rest are never allowed."""
    try:
        return LLTokenizer(text, n_vocab=vocab_size, eos_token=end_ids or None)
    except Exception as error:  # the library raises its own kinds
        raise ValueError(f"its tokens cannot be constrained: {error}") from error
