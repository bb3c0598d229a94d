"""Pairs of a query and a document → token ids: by the tokenizer's own frame, or by a score template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template
from pipelines.nodes.text.templates.request_template import RequestTemplate
from pipelines.nodes.text.tokenizing.text_reader import (
    TextReader,
    cut,
    pair_lengths,
    parts,
    text_parts,
)
from pipelines.nodes.text.tokenizing.tokenizer import TokenizerFrame
from pipelines.values.node_values import Prompt, Tokens

Ids = list[int]
Pair = tuple[str, str]


class FramedPairs:
    """Pairs by the tokenizer's own frame for two texts, with or without special tokens."""

    def __init__(self, reader: TextReader, special: bool) -> None:
        self.reader = reader
        self.frame = reader.frames[2, special]

    def whole(self, pairs: list[Pair], most: int | None, left: bool) -> list[Tokens]:
        """A text for each pair, cut to `most` tokens (None: not cut); the longer of the two is cut first."""
        if most is None:
            self.reader.refuse_long_texts([text for pair in pairs for text in pair])
        cut_pairs = [self._cut(*pair, most, left) for pair in self._encoded(pairs)]
        return [self._framed(of, *pair) for of, pair in enumerate(cut_pairs)]

    def chunks(self, pairs: list[Pair]) -> list[Tokens]:
        """A text for each part of a document; a query takes at most half of the context, a part the rest."""
        return [
            self._framed(of, query, part)
            for of, (query, document) in enumerate(self._encoded(pairs))
            for query, part in with_parts(query, document, self.reader.max_context, self.frame)
        ]

    def _encoded(self, pairs: list[Pair]) -> list[tuple[Ids, Ids]]:
        """Each pair's ids without special tokens; a text that occurs more than once is encoded once."""
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


def with_parts(query: Ids, document: Ids, max_context: int, frame: TokenizerFrame) -> list[tuple[Ids, Ids]]:
    """The query, at most half of the context long, with each part of the document (OVMS's rule)."""
    if max_context == 0:
        return [(query, document)]
    query = query[: max_context // 2]
    size = free_tokens(max_context, len(query) + frame.num_special)
    return [(query, part) for part in parts(document, size)]


def free_tokens(max_context: int, taken: int) -> int:
    """How many tokens of a document fit in the context.  Raises RequestError where none fits."""
    if taken >= max_context:
        raise RequestError(f"no document fits beside its query: this model reads {max_context} tokens")
    return max_context - taken


SPARE_TOKENS = 8
"""How many tokens a part of a document can gain at its ends, where it is cut and joined to the template."""


class RenderedPairs:
    """Pairs by a template: its messages have the roles query and document, its variables are `kwargs`."""

    def __init__(
        self,
        reader: TextReader,
        special: bool,
        template: Template | RequestTemplate,
        kwargs: Mapping[str, Any],
    ) -> None:
        self.reader = reader
        self.special = special
        self.template = template
        self.kwargs = kwargs

    def whole(self, pairs: list[Pair], most: int | None, left: bool) -> list[Tokens]:
        """A text for each pair, cut to `most` tokens; None: not cut."""
        return self.reader.read([self._rendered(*pair) for pair in pairs], most, left)

    def chunks(self, pairs: list[Pair]) -> list[Tokens]:
        """A text for each part of a document; a query takes at most half of the context, a part the rest."""
        queries = {query: self._query(query) for query in {query for query, _ in pairs}}
        cut = [
            (of, self._rendered(query, part))
            for of, (whole_query, document) in enumerate(pairs)
            for query, size in [queries[whole_query]]
            for part in text_parts(self.reader.tokenizer, document, size)
        ]
        read = self.reader.read([prompt for _, prompt in cut], most=None, left=False)
        return [replace(tokens, of=of) for (of, _), tokens in zip(cut, read, strict=True)]

    def _query(self, query: str) -> tuple[str, int | None]:
        """A query cut to half of the context, and how many tokens of a document fit with it; None: any
        number.

        Raises RequestError where none fits.
        """
        reader = self.reader
        query = reader.cut_text(query, reader.max_context // 2)
        if not reader.max_context:
            return query, None
        (around,) = reader.read([self._rendered(query, "")], most=None, left=False)
        return query, max(free_tokens(reader.max_context, len(around.ids)) - SPARE_TOKENS, 1)

    def _rendered(self, query: str, document: str) -> Prompt:
        """Raises RequestError where the template refuses."""
        messages = [{"role": "query", "content": query}, {"role": "document", "content": document}]
        try:
            text = self.template.render(
                messages,
                tools=None,
                add_generation_prompt=False,
                continue_final_message=False,
                kwargs=self.kwargs,
            )
        except ChatTemplateError as error:
            raise RequestError(f"the score template refused this pair: {error}") from error
        return Prompt(text=text, add_special_tokens=self.special)
