"""The passages that a reply names, as OpenAI's annotations."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.values.reply_values import Citation
from pipelines.values.search_values import Hit
from server.schema.reply_models import Annotation, CitedPassage, FileCitation, UrlCitation


def url_of(passage: Hit) -> str | None:
    """The address of a document: its attribute `url`, or its name where that is one; None without any."""
    named = passage.attributes.get("url") or passage.document
    return named if isinstance(named, str) and named.startswith(("http://", "https://")) else None


def annotations_of(citations: Iterable[Citation]) -> list[Annotation]:
    """One annotation for each time that a reply names a passage: of an address, or of a file."""
    return [_annotation(citation) for citation in citations]


def _annotation(citation: Citation) -> Annotation:
    passage = citation.passage
    place = {"start_index": citation.start, "end_index": citation.end}
    if (url := url_of(passage)) is not None:
        title = passage.heading or passage.document
        return Annotation(type="url_citation", url_citation=UrlCitation(url=url, title=title, **place))
    document, index = passage.document, citation.number - 1
    cited = FileCitation(file_id=document, filename=document, index=index, **place)
    return Annotation(type="file_citation", file_citation=cited)


def cited_passages(citations: Iterable[Citation]) -> list[CitedPassage]:
    """The passages that are named, each once, by their numbers."""
    by_number = {citation.number: citation.passage for citation in citations}
    return [
        CitedPassage(
            number=number,
            document=passage.document,
            heading=passage.heading,
            text=passage.text,
            start=passage.start,
            score=passage.score,
            url=url_of(passage),
        )
        for number, passage in sorted(by_number.items())
    ]
