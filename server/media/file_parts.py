"""Files that requests hold in base64, whose text is read: `file` of chats, `input_file` of Responses,
documents of Messages.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pipelines.base.errors import BadDocument, RequestError
from server.media.pdf_text import MAX_CHARS, MAX_SECONDS, Left, read_pdf

PDF = "application/pdf"
MAX_TYPE = 100
"""How much of a type of files is quoted."""


class FileReader:
    """Reads the files of one request, which have MAX_CHARS together, and take MAX_SECONDS of a processor."""

    def __init__(self) -> None:
        self._left = Left(MAX_SECONDS, MAX_CHARS)

    def text(self, file: Mapping[str, Any], where: str) -> str:
        """The text of a file under its name.

        Raises RequestError, with its place, for a file that is not there, and BadDocument for one that is not
        read.
        """
        data, name = file.get("file_data"), file.get("filename")
        if not isinstance(data, str):
            fault = "a text in base64 is required; files by id or address are not fetched"
            raise RequestError(f"`{where}.file_data`: {fault}", field=f"{where}.file_data")
        head, _, rest = data.rpartition(",")
        media_type = head.removeprefix("data:").partition(";")[0] if head else _type_of(name)
        content = decoded(rest, f"{where}.file_data")
        try:
            return titled(text_of_file(content, media_type, where, self._left), name)
        except BadDocument as error:
            raise BadDocument(f"`{where}`: {error.message}", where) from None


def _type_of(name: Any) -> str:
    return "text/plain" if isinstance(name, str) and name.lower().endswith((".txt", ".md")) else PDF


def decoded(data: str, where: str) -> bytes:
    """The bytes of a file.  Raises RequestError with its place."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"`{where}`: Invalid base64 data: {error}", field=where) from None


def text_of_file(content: bytes, media_type: str, where: str, left: Left) -> str:
    """The text of a file of text or a PDF file, within what is `left`.  Raises BadDocument."""
    if media_type.startswith("text/"):
        return content.decode(errors="replace")
    if media_type != PDF:
        raise BadDocument(f"files of type `{media_type[:MAX_TYPE]}` are not read", where)
    return read_pdf(content, where, left)


def titled(text: str, title: object, context: str | None = None) -> str:
    """A text under its title, where that is one, and what the client says of it."""
    head = [f"Title: {title}"] if title and isinstance(title, str) else []
    return "\n".join([*head, *([context] if context else []), text])
