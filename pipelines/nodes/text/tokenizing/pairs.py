"""Pairs of a query and a document → token ids: by the tokenizer's own frame, or by a score template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipelines.errors import RequestError
from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template
from pipelines.nodes.text.tokenizing.text_reader import (
    TextReader,
    cut,
    cut_text,
    pair_lengths,
    parts,
    text_parts,
)
from pipelines.nodes.text.tokenizing.tokenizer import Frame
from pipelines.values import Prompt, Tokens

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


SPARE_TOKENS = 8
"""Of a part of a document: how many it may gain where it is cut, and where it meets the template's words."""


class RenderedPairs:
    """Pairs by a template: its messages have the roles query and document, its variables are `kwargs`."""

    def __init__(
        self, reader: TextReader, special: bool, template: Template, kwargs: Mapping[str, Any]
    ) -> None:
        self.reader = reader
        self.special = special
        self.template = template
        self.kwargs = kwargs

    def whole(self, pairs: list[Pair], most: int | None, left: bool) -> list[Tokens]:
        """A text for each pair; `most` of its tokens stay, None all."""
        return self.reader.read([self._rendered(*pair) for pair in pairs], most, left)

    def chunks(self, pairs: list[Pair]) -> list[Tokens]:
        """A text for each part of a document that fits beside its query, of which half the context stays."""
        queries = {query: self._query(query) for query in {query for query, _ in pairs}}
        cut = [
            (of, self._rendered(query, part))
            for of, (asked, document) in enumerate(pairs)
            for query, size in [queries[asked]]
            for part in text_parts(self.reader.tokenizer, document, size)
        ]
        read = self.reader.read([prompt for _, prompt in cut], None, False)
        return [replace(tokens, of=of) for (of, _), tokens in zip(cut, read, strict=True)]

    def _query(self, query: str) -> tuple[str, int | None]:
        """What is read of a query, and how many tokens of a document fit beside it, None for any number.

        Raises RequestError where none fits.
        """
        reader = self.reader
        query = cut_text(reader.tokenizer, query, reader.max_context // 2)
        if not reader.max_context:
            return query, None
        (around,) = reader.read([self._rendered(query, "")], None, False)
        return query, max(room(reader.max_context, len(around.ids)) - SPARE_TOKENS, 1)

    def _rendered(self, query: str, document: str) -> Prompt:
        """Raises RequestError where the template refuses."""
        messages = [{"role": "query", "content": query}, {"role": "document", "content": document}]
        try:
            text = self.template.render(messages, None, False, False, self.kwargs)
        except ChatTemplateError as error:
            raise RequestError(f"the score template refused this pair: {error}") from error
        return Prompt(text=text, add_special_tokens=self.special)
