"""Tokens as the words of a text: by spaces, or by characters where a language has none; as in Whisper."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WITHOUT_SPACES = ("zh", "ja", "yue", "th", "lo", "my")
"""Languages whose words and sentences are joined without a space."""
BEFORE = "\"'“¡¿([{-"
"""Punctuation that belongs to the word after it."""
AFTER = "\"'.。,，!！?？:：”)]}、"
"""Punctuation that belongs to the word before it."""
PART = "\ufffd"
"""The character in the text of tokens that end within a character."""
Decode = Callable[[Sequence[int]], str]


@dataclass(slots=True)
class TokenWord:
    """A word with its spaces, and the tokens that it is made of: `first` is the index of the first one."""

    text: str
    first: int
    token_ids: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The index of the token after it."""
        return self.first + len(self.token_ids)


def split_words(token_ids: Sequence[int], decode: Decode, language: str, first: int = 0) -> list[TokenWord]:
    """The words of a text; all of its tokens are in one of them.  `first` is the index of the first token."""
    words: list[TokenWord] = []
    for part in _characters(token_ids, decode, first):
        begins = part.text.startswith(" ") or part.text.strip() in string.punctuation
        if language in WITHOUT_SPACES or begins or not words:
            words.append(part)
        else:
            words[-1].text += part.text
            words[-1].token_ids += part.token_ids
    return words


def _characters(token_ids: Sequence[int], decode: Decode, first: int) -> list[TokenWord]:
    """The shortest runs of tokens that are whole characters."""
    whole, parts, length = decode(token_ids), [], 0
    part = TokenWord("", first)
    for token_id in token_ids:
        part.token_ids.append(token_id)
        part.text = decode(part.token_ids)
        at = part.text.find(PART)
        if at < 0 or whole[length + at : length + at + 1] == PART:  # the text has this character itself
            parts.append(part)
            length += len(part.text)
            part = TokenWord("", part.end)
    if part.token_ids:
        parts.append(part)
    return parts


def with_punctuation(words: list[TokenWord]) -> list[TokenWord]:
    """The words with the punctuation before and after them; it takes no time of its own."""
    joined: list[TokenWord] = []
    for word in reversed(words):
        if joined and word.text.startswith(" ") and word.text.strip() in BEFORE:
            joined[-1].text = word.text + joined[-1].text
        else:
            joined.append(word)
    merged: list[TokenWord] = []
    for word in reversed(joined):
        if merged and not merged[-1].text.endswith(" ") and word.text in AFTER:
            merged[-1].text += word.text
        else:
            merged.append(word)
    return merged
