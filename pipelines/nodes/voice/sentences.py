"""Clauses with their phonemes → sentences as Piper's voices read them: punctuation is a phoneme."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ClauseEnd(NamedTuple):
    """What ends a clause: the mark that is spoken, "" for none, and whether the sentence ends there."""

    mark: str = ""
    ends_sentence: bool = False


ENDINGS = {
    **{mark: ClauseEnd(mark, ends_sentence=True) for mark in ".?!"},
    **{mark: ClauseEnd(mark) for mark in ",;:"},
    "؟": ClauseEnd("?", ends_sentence=True),
    "،": ClauseEnd(","),
    "؛": ClauseEnd(";"),
    **dict.fromkeys("–—―", ClauseEnd(";")),
    **dict.fromkeys("。？！।॥", ClauseEnd("", ends_sentence=True)),
    "…": ClauseEnd(),
}
"""Character that ends a clause → what that means to Piper's voices."""
ELLIPSIS = "..."
PAUSES = (", ", "; ", ": "), (" ",)
"""Where a sentence may be cut, the better places first."""
LANGUAGE = re.compile(r"\([^)]+\)")
"""Before and after words of another language espeak-ng writes the code of the language, as `(en)`."""
LAST_MARKS = re.compile(rf"[{re.escape(''.join(ENDINGS))}]+\Z")


def ending(text: str) -> ClauseEnd:
    """How a clause ends, from the text that espeak-ng read for it, with the spaces behind it.

    Of several marks the first counts, and none on a line without a word before it.  An empty line ends a
    sentence, and no mark before it is spoken, as in Piper.
    """
    words = text.rstrip()
    num_lines = text.count("\n", len(words))
    if num_lines > 1:
        return ClauseEnd("", ends_sentence=True)
    marks = LAST_MARKS.search(words)
    if marks is None or marks[0].startswith(ELLIPSIS):
        return ClauseEnd()
    if not num_lines and not any(map(str.isalnum, words)):
        return ClauseEnd()
    return ENDINGS[marks[0][0]]


def endings(read: Iterable[str]) -> Iterator[ClauseEnd]:
    """How each clause ends; `read` are the texts that were read for them, each but the last with one
    character of the next.
    """
    texts, ahead = list(read), ""
    for text in texts[:-1]:
        text = ahead + text
        yield ending(text[:-1])
        ahead = text[-1:]
    for text in texts[-1:]:
        yield ending(ahead + text)


def sentences(clauses: Iterable[tuple[str, str]]) -> list[str]:
    """The phonemes of each sentence, accents apart from their letters; `clauses` are the phonemes of each and
    the text that was read for it.
    """
    pairs, whole, sentence = list(clauses), [], ""
    for (phonemes, _), end in zip(pairs, endings(text for _, text in pairs), strict=True):
        pause = "" if end.ends_sentence or not end.mark else " "
        sentence += unicodedata.normalize("NFD", LANGUAGE.sub("", phonemes) + end.mark + pause)
        if end.ends_sentence:
            whole.append(sentence)
            sentence = ""
    return [text for text in (*whole, sentence) if text]


def cut(sentence: str, most: int) -> Iterator[str]:
    """A sentence in parts of at most `most` phonemes, cut behind a mark, else between words."""
    while len(sentence) > most:
        behind = (
            max(sentence.rfind(mark, 0, most) for mark in marks) for marks in ((", ", "; ", ": "), (" ",))
        )
        at = next((place + 1 for place in behind if place > 0), most)
        yield sentence[:at]
        sentence = sentence[at:].lstrip(" ")
    yield sentence
