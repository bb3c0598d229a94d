"""Decodes the token ids of one text piece by piece, and single tokens into text and bytes."""

from __future__ import annotations

from functools import lru_cache

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_BYTES = 4
"""Bytes of a character in UTF-8."""
MAX_HELD = 32
"""Tokens without a text, after which that of all but the last of them is given out.

They are bytes that become no character, or tokens that are left out of texts: each further one would have
all of them decoded again.
"""


class IncrementalDecoder:
    """Decodes ids into text; bytes of an incomplete character are held back."""

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool) -> None:
        self.tokenizer = tokenizer
        self._skips = skip_special_tokens
        self._stream = DecodeStream(skip_special_tokens=skip_special_tokens)
        self._before: list[int] = []  # the tokens of the last text
        self._held: list[int] = []  # those after it

    def push(self, token_id: int) -> str:
        self._held.append(token_id)
        try:
            piece: str | None = self._stream.step(self.tokenizer, token_id)
        except Exception:  # by the new tokens, the ones before them become another text, which was given out
            piece = self._alone()
        if piece:
            self._before, self._held = self._held, []
            return piece
        return self._let_go() if len(self._held) >= MAX_HELD else ""

    def _alone(self) -> str:
        """The text of the tokens that are held, without those before them, behind which others may follow."""
        self._stream = DecodeStream(ids=self._held, skip_special_tokens=self._skips)
        return self._decode(self._held)

    def _let_go(self) -> str:
        """The text of the tokens that are held, but for half a character at their end, which stays held."""
        num_kept, text = self._split()
        last_ids = self._held[len(self._held) - num_kept :]
        self._held = []
        self._stream = DecodeStream(ids=self._before, skip_special_tokens=self._skips)
        return text + "".join(self.push(token_id) for token_id in last_ids)

    def _split(self) -> tuple[int, str]:
        """(how many of the last tokens that are held may be half a character, the text of those before)."""
        text = self._after(self._held)
        for num_kept in range(1, MAX_BYTES):
            first, last = self._held[:-num_kept], self._held[-num_kept:]
            if (shown := self._after(first)) + self._after(last) == text:
                return num_kept, shown
        return 0, text

    def _after(self, ids: list[int]) -> str:
        """The text of ids behind the tokens before them."""
        before, whole = self._decode(self._before), self._decode([*self._before, *ids])
        return whole[len(before) :] if whole.startswith(before) else self._decode(ids)

    def _decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=self._skips)
        return text

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
