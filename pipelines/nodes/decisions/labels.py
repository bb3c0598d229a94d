"""The words by which a decoder answers a question, as single tokens: letters, digits, yes and no."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from string import ascii_uppercase
from typing import NamedTuple

from pipelines.base.errors import RequestError
from pipelines.nodes.decisions.questions import Kind, Question
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode

TAIL_CHARS = 64
"""A label is read where the last characters of a prompt end; what stands before does not change it."""
LETTERS = (*ascii_uppercase, *map("".join, product(ascii_uppercase, repeat=2)))
WORDS: dict[Kind, tuple[str, ...]] = {
    "predicate": ("No", "Yes"),
    "score": ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
}
"""Kind of question → the words for its options; those of a choice are letters."""


class Words(NamedTuple):
    """For each option the word that stands for it, and the tokens that are this word.

    `kind` is that of the question, or "choice" where the words are letters.
    """

    kind: Kind
    of_options: list[tuple[str, frozenset[int]]]

    @property
    def tokens(self) -> frozenset[int]:
        """The tokens of all words."""
        return frozenset().union(*(tokens for _, tokens in self.of_options))


class Labels:
    """The words of a model where prompts end as `prompt` does."""

    def __init__(self, node: TokenizerNode, prompt: str) -> None:
        self._node = node
        self._tail = prompt[-TAIL_CHARS:]
        self._begin = self._ids("")
        self._found: dict[str, frozenset[int]] = {}

    def of(self, question: Question) -> Words:
        """The words for the options of a question: those of its kind, where each is one token, or letters.

        Raises RequestError for more options than there are letters of one token.
        """
        number = len(question.options)
        if words := self._first(WORDS.get(question.kind, ()), number):
            return Words(question.kind, words)
        if letters := self._first(LETTERS, number):
            return Words("choice", letters)
        raise RequestError(
            f"`{question.where}`: this model has no words of one token for {len(question.options)} options",
            field=question.where,
        )

    def _first(self, words: Sequence[str], number: int) -> list[tuple[str, frozenset[int]]] | None:
        """The first words that differ in a token; None where there are fewer."""
        found, taken = list[tuple[str, frozenset[int]]](), frozenset[int]()
        for word in words:
            if len(found) == number:
                break
            if tokens := self.tokens(word) - taken:
                found.append((word, tokens))
                taken |= tokens
        return found if len(found) == number else None

    def tokens(self, word: str) -> frozenset[int]:
        """The tokens that are this word at the end of the prompt, with a space before it or without."""
        if word not in self._found:
            spellings = {word, word.lower()} if word in WORDS["predicate"] else {word}
            ids = [self._ids(space + each) for each in spellings for space in ("", " ")]
            self._found[word] = frozenset(_last(self._begin, each) for each in ids) - {-1}
        return self._found[word]

    def _ids(self, word: str) -> Sequence[int]:
        ids: list[int] = self._node.tokenizer.encode(self._tail + word, add_special_tokens=False).ids
        return ids


def _last(begin: Sequence[int], ids: Sequence[int]) -> int:
    """The only token after `begin`; -1 where there is another number of them, or `begin` is changed."""
    is_one = len(ids) == len(begin) + 1 and list(ids[:-1]) == list(begin)
    return ids[-1] if is_one else -1
