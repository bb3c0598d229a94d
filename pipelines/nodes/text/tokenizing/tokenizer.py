"""Tokenizer files, and what a tokenizer puts around the tokens of a text or of a pair.

The one place that reads tokenizer.json.  A tokenizer is opened once per file and shared by its nodes.  Its
frame is learned from one example, so that ids can be cut and joined without the tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, without its padding and truncation settings.

    Raises ValueError, naming the file, when it cannot be read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ValueError(f"`tokenizers` cannot read {path.name}: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def longest_token(tokenizer: Tokenizer) -> int:
    """The number of characters of the longest token, at least; a byte counts as one."""
    return max(map(len, tokenizer.get_vocab()), default=1)


def special_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the tokens that a grammar must name by id, by their text.

    llguidance treats every added token in angle brackets as special, also where the file does not.
    """
    return {
        token.content: token_id
        for token_id, token in tokenizer.get_added_tokens_decoder().items()
        if token.special or (token.content.startswith("<") and token.content.endswith(">"))
    }


SAMPLES = ("a", "0", ".", "the")


class FramePart(NamedTuple):
    """A part of a framed text: special tokens, or the tokens of text `slot`; all of one type."""

    ids: list[int]
    slot: int | None
    type: int


class TokenizerFrame:
    """The special tokens and types around one text, or around a pair of them."""

    def __init__(self, pieces: list[FramePart]) -> None:
        self.pieces = pieces
        self.num_special = sum(len(piece.ids) for piece in pieces)
        self._typed = any(piece.type for piece in pieces)

    @classmethod
    def learned(cls, tokenizer: Tokenizer, num_texts: int, special: bool) -> TokenizerFrame:
        """How the tokenizer frames `num_texts` texts, 1 or 2, with its special tokens or without any.

        Types that only number the texts, without a special token in the frame, are the library's default and
        carry no information: they become 0.
        """
        encoding = tokenizer.encode(*[_sample(tokenizer)] * num_texts, add_special_tokens=special)
        typed = tokenizer.num_special_tokens_to_add(num_texts == 2) > 0
        types = encoding.type_ids if typed else [0] * len(encoding.ids)
        pieces: list[FramePart] = []
        for token_id, slot, kind in zip(encoding.ids, encoding.sequence_ids, types, strict=True):
            if slot is None:
                pieces.append(FramePart([token_id], slot=None, type=kind))
            elif slot not in [piece.slot for piece in pieces]:
                pieces.append(FramePart([], slot, kind))
        return cls(pieces)

    def around(self, *texts: list[int]) -> tuple[list[int], list[int] | None]:
        """The framed ids, and their types, None where all are 0."""
        parts = [piece.ids if piece.slot is None else texts[piece.slot] for piece in self.pieces]
        ids = list(chain.from_iterable(parts))
        return ids, self._types(map(len, parts)) if self._typed else None

    def _types(self, lengths: Iterable[int]) -> list[int]:
        pairs = zip(self.pieces, lengths, strict=True)
        return list(chain.from_iterable([piece.type] * length for piece, length in pairs))


def _sample(tokenizer: Tokenizer) -> str:
    """A text that has tokens."""
    vocab: dict[str, int] = tokenizer.get_vocab()
    for text in (*SAMPLES, *vocab):
        if tokenizer.encode(text, add_special_tokens=False).ids:
            return text
    raise ValueError("the tokenizer finds no token in any text")
