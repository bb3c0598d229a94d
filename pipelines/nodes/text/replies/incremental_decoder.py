"""Decodes the token ids of one text piece by piece, and single tokens into text and bytes."""

from __future__ import annotations

from functools import lru_cache

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class IncrementalDecoder:
    """Decodes ids into text; bytes of an incomplete character are held back."""

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool) -> None:
        self.tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=skip_special_tokens)

    def push(self, token_id: int) -> str:
        piece: str | None = self._stream.step(self.tokenizer, token_id)
        return piece or ""

    def token_text(self, token_id: int) -> tuple[str, bytes]:
        """One token alone, as text and as bytes (for log-probabilities)."""
        return _token_text(self.tokenizer, token_id)


@lru_cache(maxsize=65536)
def _token_text(tokenizer: Tokenizer, token_id: int) -> tuple[str, bytes]:
    """A token's text and bytes.  A token that is part of a character has bytes but no text of its own.

    It is read behind itself, as in the middle of a text: some tokenizers strip the space of a first token.
    """
    text: str = tokenizer.decode([token_id], skip_special_tokens=False)
    if REPLACEMENT not in text:
        text = tokenizer.decode([token_id, token_id], skip_special_tokens=False)[len(text) :]
        return text, text.encode()
    raw = _byte_level(tokenizer.id_to_token(token_id) or "")
    return ("", raw) if raw is not None else (text, text.encode())


def _byte_level(token: str) -> bytes | None:
    """The bytes of a byte-level BPE token (GPT-2's printable alphabet) or a `<0x..>` byte token."""
    if token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:-1], 16)])
    try:
        return bytes(_byte_alphabet()[char] for char in token)
    except KeyError:
        return None


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[str, int]:
    """GPT-2's map from printable characters to bytes (Radford et al., 2019, `bytes_to_unicode`)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
