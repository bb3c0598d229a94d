"""What a tokenizer puts around the tokens of a text or of a pair: special tokens, and types of texts.

Learned from one example, so that ids may be cut and put together without the tokenizer.  Knows nothing of
requests or of how long a text may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from tokenizers import Tokenizer

SAMPLES = ("a", "0", ".", "the")


class Piece(NamedTuple):
    """Of a framed text: special tokens, or the tokens of text `slot`; all of one type."""

    ids: list[int]
    slot: int | None
    type: int


class Frame:
    """The special tokens and types around one text, or around a pair of them."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.num_special = sum(len(piece.ids) for piece in pieces)
        self._typed = any(piece.type for piece in pieces)

    @classmethod
    def learned(cls, tokenizer: Tokenizer, num_texts: int, special: bool) -> Frame:
        """How the tokenizer frames `num_texts` texts, 1 or 2, with its special tokens or without any.

        Types that only number the texts, with no special token in the tokenizer's frame, are what it does
        by default: they tell a model nothing, and are 0.
        """
        encoding = tokenizer.encode(*[_sample(tokenizer)] * num_texts, add_special_tokens=special)
        typed = tokenizer.num_special_tokens_to_add(num_texts == 2) > 0
        types = encoding.type_ids if typed else [0] * len(encoding.ids)
        pieces: list[Piece] = []
        for token_id, slot, kind in zip(encoding.ids, encoding.sequence_ids, types, strict=True):
            if slot is None:
                pieces.append(Piece([token_id], None, kind))
            elif slot not in [piece.slot for piece in pieces]:
                pieces.append(Piece([], slot, kind))
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
