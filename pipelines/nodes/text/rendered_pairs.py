"""Pairs of texts as a score template writes them: one text for each query and document.

Knows templates and texts; knows nothing of requests or of what a score is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipelines.errors import RequestError
from pipelines.nodes.text.framed_pairs import Pair, room
from pipelines.nodes.text.jinja_template import ChatTemplateError, Template
from pipelines.nodes.text.text_reader import TextReader
from pipelines.nodes.text.truncation import cut_text, text_parts
from pipelines.values import Prompt, Tokens

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
