"""`document` blocks: texts, and PDF files whose text is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base.errors import BadDocument, RequestError
from pipelines.requests.fields.error_text import quoted
from server.apis.messages.blocks import AnthropicMessage, placed_blocks
from server.media.pdf_text import MAX_CHARS, MAX_SECONDS, Left

SOURCES: dict[Any, tuple[str, ...]] = {
    "base64": ("media_type", "data"),
    "text": ("media_type", "data"),
    "content": ("content",),
    "url": ("url",),
    "file": ("file_id",),
}
"""Type of a source → the fields that it must have."""


def read_documents(messages: list[AnthropicMessage]) -> None:
    """Write the text of each document into its block.  Raises RequestError, and those of `read_pdf`.

    All of a request have MAX_CHARS together, and take MAX_SECONDS of a processor.
    """
    left = Left(MAX_SECONDS, MAX_CHARS)
    for where, block in placed_blocks(messages):
        if block.type == "document" and isinstance(block.source, dict):
            block.text = document_text(block.title, block.context, block.source, f"{where}.source", left)


def document_text(
    title: str | None, context: str | None, source: Mapping[str, Any], where: str, left: Left | None = None
) -> str:
    """The text of a document under its title and what the client says of it.

    Raises RequestError, with its place, for a source that is not whole, and BadDocument for one that is not
    read.
    """
    from server.media.file_parts import titled  # few requests have documents

    kind = source.get("type")
    if not isinstance(kind, str) or kind not in SOURCES:
        raise _refused(f"{quoted(kind)} is not read; allowed: {', '.join(SOURCES)}", f"{where}.type")
    for name in SOURCES[kind]:
        if not isinstance(source.get(name), str) and name != "content":
            raise _refused(f"a text is required in a source of type `{kind}`", f"{where}.{name}")
    return titled(_read(kind, source, where, left or Left(MAX_SECONDS, MAX_CHARS)), title, context)


def _read(kind: str, source: Mapping[str, Any], where: str, left: Left) -> str:
    from server.media.file_parts import decoded, text_of_file

    if kind == "text":
        return str(source["data"])
    if kind == "content":
        return _text_of_blocks(source["content"], f"{where}.content")
    if kind != "base64":
        raise BadDocument(f"documents by `{kind}` are not fetched: send the file in base64", where)
    return text_of_file(decoded(source["data"], f"{where}.data"), source["media_type"], where, left)


def _text_of_blocks(content: Any, where: str) -> str:
    """The text of a source that is text, or blocks of text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _refused(f"must be a string or a list of content blocks, got {quoted(content)}", where)
    texts = [block.get("text") if isinstance(block, dict) else None for block in content]
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise _refused("only blocks of type text are read here", f"{where}.{i}")
    return "\n".join(map(str, texts))


def _refused(fault: str, where: str) -> RequestError:
    return RequestError(f"`{where}`: {fault}", field=where)
