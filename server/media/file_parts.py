"""Files among the parts of a message: chat's `file` and Responses' `input_file`, whose text is read."""

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
        try:
            content = base64.b64decode(rest, validate=True)
        except (binascii.Error, ValueError) as error:
            fault = f"`{where}.file_data`: Invalid base64 data: {error}"
            raise RequestError(fault, field=f"{where}.file_data") from None
        title = f"Title: {name}\n" if isinstance(name, str) and name else ""
        return title + self._read(content, media_type, where)

    def _read(self, content: bytes, media_type: str, where: str) -> str:
        if media_type.startswith("text/"):
            return content.decode(errors="replace")
        if media_type != PDF:
            raise BadDocument(f"`{where}`: files of type `{media_type[:MAX_TYPE]}` are not read", where)
        try:
            return read_pdf(content, where, self._left)
        except BadDocument as error:
            raise BadDocument(f"`{where}`: {error.message}", where) from None


def _type_of(name: Any) -> str:
    return "text/plain" if isinstance(name, str) and name.lower().endswith((".txt", ".md")) else PDF
