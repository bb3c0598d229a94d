"""The values between the nodes of a model that finds entities of the labels in a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text behind the labels, as tokens.

    `marks` holds for each token the number of its word, from 1, and 0 where the model reads no word from it;
    `words` are the characters from the first to the one after the last of each.
    """

    text: str
    ids: list[int]
    marks: list[int]
    words: list[tuple[int, int]]
