"""Spans of words that are entities, by a model's numbers for each span or for each word.

The order of spans and the rules for those that overlap are those of the `gliner` package: the likeliest span
first, and of two that may not stand together the earlier in that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.values.entity_values import MarkedText
from pipelines.values.node_values import EntitySpan
from pipelines.values.tasks import WantedEntities

Floats = NDArray[np.float32]
Numbers = NDArray[np.intp]
MAX_CANDIDATES = 20_000
"""The most spans of a text above the threshold."""
MAX_REQUEST_CANDIDATES = 200_000
"""The most of all texts of a request: each is compared with those taken before."""


class Candidates(NamedTuple):
    """Spans above the threshold: the first and the last word of each, its label, and its probability."""

    starts: Numbers
    ends: Numbers
    labels: Numbers
    scores: Floats


@dataclass
class SpanSearch:
    """What a request wants found, and how many spans above the threshold its texts have had so far."""

    wanted: WantedEntities
    num_candidates: int = 0

    def count(self, number: int) -> None:
        """Count those of one more text.  Raises RequestError for more than MAX_REQUEST_CANDIDATES."""
        self.num_candidates += number
        if self.num_candidates > MAX_REQUEST_CANDIDATES:
            raise RequestError(
                f"more than {MAX_REQUEST_CANDIDATES} spans of the texts are above a `threshold` of "
                f"{self.wanted.threshold}; raise it, or send the texts in several requests",
                "threshold",
            )


def find_spans(
    logits: Floats, marked: MarkedText, search: SpanSearch, names: tuple[str, ...], of_words: bool
) -> list[EntitySpan]:
    """The entities of one text, by their first word; `names` are those of its labels.

    logits: float32[words, width, labels] of the spans that begin at each word; with `of_words` float32[words,
    labels, 3]: whether a word begins, ends and belongs to an entity.  Words behind those of the text, and
    labels behind its own, are padding.  Raises RequestError where too many spans are above the threshold.
    """
    wanted = search.wanted
    own = logits[: len(marked.words)]
    if of_words:
        candidates = candidates_of_words(own[:, : len(names)], wanted.threshold)
    else:
        candidates = candidates_of_spans(own[..., : len(names)], wanted.threshold)
    search.count(len(candidates.starts))
    entities = []
    for place in chosen(candidates, len(marked.words), wanted):
        start = marked.words[candidates.starts[place]][0]
        end = marked.words[candidates.ends[place]][1]
        label = names[candidates.labels[place]]
        entities.append(
            EntitySpan(start, end, marked.text[start:end], label, float(candidates.scores[place]))
        )
    return entities


def candidates_of_spans(logits: Floats, threshold: float) -> Candidates:
    """The spans above the threshold, by a number for each first word, width and label.

    Raises RequestError.
    """
    scores = sigmoid(logits)
    starts, widths, labels = np.nonzero(scores > threshold)
    inside = starts + widths < len(scores)
    starts, widths, labels = starts[inside], widths[inside], labels[inside]
    check_number(len(starts), threshold)
    return Candidates(starts, starts + widths, labels, scores[starts, widths, labels])


def candidates_of_words(logits: Floats, threshold: float) -> Candidates:
    """The spans above the threshold, by three numbers for each word and label.

    One begins and ends at words that do, and all its words belong to an entity; its probability is the least
    of theirs.  Raises RequestError.
    """
    begin, end, inside = np.moveaxis(sigmoid(logits), -1, 0)
    outside = np.cumsum(inside < threshold, axis=0)  # words that belong to no entity, up to each
    before = outside - (inside < threshold)
    pieces: list[tuple[Numbers, Numbers, Numbers]] = []
    for label in np.flatnonzero((begin > threshold).any(0) & (end > threshold).any(0)):
        firsts = np.flatnonzero(begin[:, label] > threshold)
        lasts = np.flatnonzero(end[:, label] > threshold)
        fits = lasts >= firsts[:, None]
        fits &= outside[lasts, label] == before[firsts, label][:, None]
        rows, columns = np.nonzero(fits)
        pieces.append((firsts[rows], lasts[columns], np.full(len(rows), label)))
        check_number(sum(len(starts) for starts, _, _ in pieces), threshold)
    if not pieces:
        return Candidates(*(np.zeros(0, np.intp),) * 3, np.zeros(0, np.float32))
    starts, ends, labels = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.lexsort((ends, labels, starts))
    starts, ends, labels = starts[order], ends[order], labels[order]
    within = [
        inside[first : last + 1, label].min() for first, last, label in zip(starts, ends, labels, strict=True)
    ]
    edges = np.minimum(begin[starts, labels], end[ends, labels])
    return Candidates(starts, ends, labels, np.minimum(edges, np.array(within, np.float32)))


def check_number(number: int, threshold: float) -> None:
    """Raise RequestError for more than MAX_CANDIDATES."""
    if number > MAX_CANDIDATES:
        raise RequestError(
            f"more than {MAX_CANDIDATES} spans of a text are above a `threshold` of {threshold}; raise it",
            "threshold",
        )


def chosen(candidates: Candidates, num_words: int, wanted: WantedEntities) -> list[int]:
    """Which candidates stand, by their first word, then by their probability."""
    stands = (Flat if wanted.flat else Nested)(num_words, wanted.multi_label).take
    by_score = np.argsort(-candidates.scores, kind="stable")
    starts, ends = candidates.starts, candidates.ends
    taken = [place for place in by_score.tolist() if stands(int(starts[place]), int(ends[place]))]
    return sorted(taken, key=lambda place: int(starts[place]))


class Flat:
    """Spans that do not overlap; with `multi_label` the same span several times."""

    def __init__(self, num_words: int, multi_label: bool) -> None:
        self._multi_label = multi_label
        self._owners = np.full((num_words, 2), -1)  # the span that each word is of

    def take(self, start: int, end: int) -> bool:
        """Take a span if it may stand beside those taken before."""
        owners = self._owners[start : end + 1]
        if (owners[:, 0] >= 0).any() and not (self._multi_label and (owners == (start, end)).all()):
            return False
        owners[:] = start, end
        return True


class Nested:
    """Spans of which one may lie in another, but none begins in one and ends behind it."""

    def __init__(self, num_words: int, multi_label: bool) -> None:
        self._multi_label = multi_label
        self._taken = set[tuple[int, int]]()
        self._last = np.full(num_words, -1)  # the last end of the spans that begin at each word
        self._first = np.full(num_words, num_words)  # the first beginning of those that end at each

    def take(self, start: int, end: int) -> bool:
        """Take a span if it may stand beside those taken before."""
        if (start, end) in self._taken:
            return self._multi_label
        begins_before = (self._first[start:end] < start).any()
        ends_behind = (self._last[start + 1 : end + 1] > end).any()
        if begins_before or ends_behind:
            return False
        self._taken.add((start, end))
        self._last[start] = max(self._last[start], end)
        self._first[end] = min(self._first[end], start)
        return True


def sigmoid(logits: Floats) -> Floats:
    """Probabilities of log-odds, float32 of the same shape."""
    with np.errstate(over="ignore"):
        scores = 1 / (1 + np.exp(-logits))
    return scores.astype(np.float32, copy=False)
