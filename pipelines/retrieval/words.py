"""The words of passages by word, in the parts of an index, and BM25 over all parts.

A word is what SQLite's FTS5 (unicode61, remove_diacritics 2) takes for one: letters and digits, in small
letters, Latin ones without accents.  A name with low lines, as max_tokens, is also found as a whole.  The
dictionary of a part is a table beside its passages; the rows that hold a word, and how often, lie in a file.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.dense_vectors import Rows, largest, mapped
from pipelines.retrieval.index_parts import part_file

WORDS = "words.bin"
K1, B = 1.2, 0.75
LEAST_WEIGHT = 1e-6
"""The weight of a word that is in half of the passages or more, as in FTS5."""
WORD = re.compile(r"\w+")
ACCENTS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
MARKS = re.compile(r"([^\w\s\x00-\x7f]{30})[^\w\s\x00-\x7f]+")
"""More marks on a letter than Unicode's stream-safe format allows: normalization sorts them in a time that is
the square of their number.
"""
Places = Mapping[str, tuple[int, int]]
"""Word → the first and the end of its places in the file of a part."""


def _names(text: str) -> list[str]:
    """What stands between other characters than letters, digits and low lines."""
    text = text.lower()
    if not text.isascii():
        text = MARKS.sub(r"\1", text)
        text = unicodedata.normalize("NFC", ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    return WORD.findall(text)


def words_of(text: str) -> tuple[list[str], list[str]]:
    """The words of a text in order, and its names of several words that low lines join."""
    names = _names(text)
    if "_" not in text:
        return names, []
    words = [word for name in names for word in name.split("_") if word]
    return words, [name for name in (name.strip("_") for name in names) if "_" in name]


def query_words(text: str, most: int) -> list[str]:
    """The words of a query, each once, and its names of several words: the first `most`."""
    words, joined = words_of(text)
    return list(dict.fromkeys([*joined, *words]))[:most]


class WordsWriter:
    """Collects the words of a part in memory: 8 bytes for each word of a passage."""

    def __init__(self, folder: Path, part: int) -> None:
        self._path = part_file(folder, part, WORDS)
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._words, self._counts = array("i"), array("i")
        self._lengths, self._different = array("i"), array("i")

    def add(self, *texts: str) -> None:
        """The words of the next row, which are those of several texts together."""
        counts: Counter[str] = Counter()
        length = 0
        for text in texts:
            words, joined = words_of(text)
            length += len(words)
            counts.update(words)
            counts.update(joined)
        self._words.fromlist(list(map(self._numbers.__getitem__, counts)))
        self._counts.fromlist(list(counts.values()))
        self._lengths.append(length)
        self._different.append(len(counts))

    def write(self) -> Iterator[tuple[str, int, int]]:
        """Write the file, and give each word with its places.  Raises OSError.

        The file has the int32 lengths of the rows in words, then the int32 row of each place, then the int32
        number of times that the word is there.
        """
        words, counts, different = (
            np.array(column, np.int32) for column in (self._words, self._counts, self._different)
        )
        rows = np.repeat(np.arange(len(different), dtype=np.int32), different)
        order = np.argsort(words, kind="stable")
        with self._path.open("wb") as file:
            file.write(self._lengths.tobytes())
            file.write(rows[order].tobytes())
            file.write(counts[order].tobytes())
        ends = np.cumsum(np.bincount(words, minlength=len(self._numbers))).tolist()
        firsts = [0, *ends]
        for word in sorted(self._numbers):
            number = self._numbers[word]
            yield word, firsts[number], ends[number]


class WordsPart:
    """The words of a part, mapped from its file; `places` looks words up in its dictionary."""

    def __init__(self, folder: Path, part: int, rows: int, places: Callable[[Sequence[str]], Places]) -> None:
        """Raises OSError, and ValueError where the file is one of other rows."""
        path = part_file(folder, part, WORDS)
        length = path.stat().st_size // 4
        num_places = (length - rows) // 2
        numbers = mapped(path, np.int32, (rows + 2 * max(num_places, 0),))
        self.lengths = numbers[:rows]
        self._rows, self._counts = numbers[rows : rows + num_places], numbers[rows + num_places :]
        self.places = places

    def holding(self, place: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(rows, how often) of a word."""
        span = slice(*place)
        return self._rows[span], self._counts[span]


class StoredWords:
    """The words of a version.  Lengths and numbers of passages are those of the rows that are not removed."""

    def __init__(self, parts: Sequence[WordsPart], present: NDArray[np.bool_] | None) -> None:
        """`present`: bool[rows], which are not removed; None: all."""
        self.parts = parts
        ends = np.cumsum([0, *(len(part.lengths) for part in parts)]).tolist()
        self._spans = [slice(first, end) for first, end in pairwise(ends)]
        self.num_rows = ends[-1]
        self._present = present
        lengths = np.concatenate([np.empty(0, np.int32), *(part.lengths for part in parts)])
        remaining = lengths if present is None else lengths[present]
        self.num_passages = len(remaining)
        self._mean = float(remaining.mean()) if len(remaining) else 0.0

    def best(
        self, words: Sequence[str], top: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, NDArray[np.float64]]:
        """The rows with the highest BM25 (k1 1.2, b 0.75), the best first, and their scores, as FTS5's.

        `allowed`: bool[rows], those that may be chosen; None: all that are not removed.  Rows without any of
        the words are no hits.
        """
        scores = np.zeros(self.num_rows, np.float64)
        places = [part.places(words) for part in self.parts]
        for word in words:
            self._add(word, places, scores)
        allowed = self._present if allowed is None else allowed
        if allowed is not None:
            scores[~allowed] = 0
        matching = np.flatnonzero(scores)
        rows: Rows = matching[largest(scores[matching], top)]
        order = np.lexsort((rows, -scores[rows]))
        return rows[order], scores[rows[order]]

    def _add(self, word: str, places: Sequence[Places], scores: NDArray[np.float64]) -> None:
        """Add a word's share to the scores of all rows."""
        holding = [
            (span, part, *part.holding(own[word]))
            for span, part, own in zip(self._spans, self.parts, places, strict=True)
            if word in own
        ]
        if self._present is None:
            num_holding = sum(len(rows) for _, _, rows, _ in holding)
        else:
            num_holding = sum(
                int(np.count_nonzero(self._present[span][rows])) for span, _, rows, _ in holding
            )
        if not num_holding:
            return
        weight = math.log((self.num_passages - num_holding + 0.5) / (num_holding + 0.5))
        weight = weight if weight > 0 else LEAST_WEIGHT
        for span, part, rows, counts in holding:
            least = K1 * (1 - B + B * part.lengths[rows] / self._mean)
            scores[span][rows] += weight * (K1 + 1) * counts / (counts + least)
