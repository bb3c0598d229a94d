"""How texts that are too long become short enough: lists of token ids in, shorter ones out.

Knows nothing of requests; of a tokenizer only where in a text a token ends.
"""

from __future__ import annotations

from itertools import pairwise

from tokenizers import Tokenizer


def cut(ids: list[int], most: int | None, left: bool) -> list[int]:
    """At most `most` ids, from `left` on cut off there; None leaves all."""
    if most is None or len(ids) <= most:
        return ids
    return ids[len(ids) - most :] if left else ids[:most]


def pair_lengths(first: int, second: int, most: int) -> tuple[int, int]:
    """How many tokens of each text of a pair stay, together at most `most`: the longer one loses first.

    As `longest_first` of `tokenizers` (truncation.rs): both end alike once both had to lose, and an odd
    token goes to the one that was longer.
    """
    short, long = sorted((first, second))
    if short + long > most:
        long = max(short, most - short)
    if short + long > most:
        short = most // 2
        long = most - short
    return (long, short) if first > second else (short, long)


def parts(ids: list[int], size: int) -> list[list[int]]:
    """The ids in lists of at most `size`, in order; an empty list is one part."""
    return [ids[start : start + size] for start in range(0, max(len(ids), 1), size)]


def cut_text(tokenizer: Tokenizer, text: str, most: int | None) -> str:
    """The longest beginning of a text that ends where a token does and has at most `most` tokens.

    vLLM's rule for what limits the texts of a pair; None or 0 leaves all.  A cut may leave more tokens than
    it promised, where a word's beginning is spelled otherwise: then it is cut again.
    """
    while most and text:
        encoding = tokenizer.encode_batch([text], add_special_tokens=False)[0]  # a batch drops the GIL
        if len(encoding.ids) <= most:
            break
        end = min(encoding.offsets[most - 1][1], encoding.offsets[most][0])
        text = text[: min(end, len(text) - 1)]
    return text


def text_parts(tokenizer: Tokenizer, text: str, size: int | None) -> list[str]:
    """The text in pieces of about `size` tokens, which joined are the text; None leaves it whole.

    A character whose bytes are several tokens is in one piece, so that a piece may have some tokens more.
    """
    if size is None:
        return [text]
    offsets = tokenizer.encode_batch([text], add_special_tokens=False)[0].offsets
    starts = [0, *(offset[0] for offset in offsets[size::size]), len(text)]
    return [text[start:end] for start, end in pairwise(starts) if end > start] or [text]
