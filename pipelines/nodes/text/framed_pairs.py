"""Pairs of texts as a tokenizer frames them: the query's ids, the document's, special tokens around both.

Knows token ids; knows nothing of requests or of what a score is.
"""

from __future__ import annotations

from pipelines.errors import RequestError
from pipelines.nodes.text.text_reader import TextReader
from pipelines.nodes.text.tokenizer_frame import Frame
from pipelines.nodes.text.truncation import cut, pair_lengths, parts
from pipelines.values import Tokens

Ids = list[int]
Pair = tuple[str, str]


class FramedPairs:
    """Pairs by the tokenizer's own frame for two texts, with special tokens where `special` says so."""

    def __init__(self, reader: TextReader, special: bool) -> None:
        self.reader = reader
        self.frame = reader.frames[2, special]

    def whole(self, pairs: list[Pair], most: int | None, left: bool) -> list[Tokens]:
        """A text for each pair; `most` of its tokens stay, None all: the longer text loses first."""
        if most is None:
            self.reader.refuse_long_texts([text for pair in pairs for text in pair])
        kept = [self._cut(*pair, most, left) for pair in self._encoded(pairs)]
        return [self._framed(of, *pair) for of, pair in enumerate(kept)]

    def chunks(self, pairs: list[Pair]) -> list[Tokens]:
        """A text for each part of a document that fits beside its query, of which half the context stays."""
        return [
            self._framed(of, query, part)
            for of, (query, document) in enumerate(self._encoded(pairs))
            for query, part in beside(query, document, self.reader.max_context, self.frame)
        ]

    def _encoded(self, pairs: list[Pair]) -> list[tuple[Ids, Ids]]:
        """Each pair's ids without special tokens; a text that comes again is read once."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        ids = dict(zip(texts, self.reader.encode(texts), strict=True))
        return [(ids[query], ids[document]) for query, document in pairs]

    def _cut(self, query: Ids, document: Ids, most: int | None, left: bool) -> tuple[Ids, Ids]:
        if most is None:
            return query, document
        lengths = pair_lengths(len(query), len(document), max(most - self.frame.num_special, 0))
        return cut(query, lengths[0], left), cut(document, lengths[1], left)

    def _framed(self, of: int, query: Ids, document: Ids) -> Tokens:
        return self.reader.checked(of, *self.frame.around(query, document))


def beside(query: Ids, document: Ids, max_context: int, frame: Frame) -> list[tuple[Ids, Ids]]:
    """The query, at most half of the context long, with each part of the document (OVMS's rule)."""
    if max_context == 0:
        return [(query, document)]
    query = query[: max_context // 2]
    return [(query, part) for part in parts(document, room(max_context, len(query) + frame.num_special))]


def room(max_context: int, taken: int) -> int:
    """How many tokens of a document fit.  Raises RequestError where none does."""
    if taken >= max_context:
        raise RequestError(f"no document fits beside its query: this model reads {max_context} tokens")
    return max_context - taken
