"""The documents of a folder: texts, Markdown, HTML, and PDF where a reader for it is given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pipelines.retrieval.html_text import text_of_html
from pipelines.retrieval.index_update import SourceDocument

ReadPdf = Callable[[bytes], str]
"""The text of a PDF file.  Raises ValueError."""
PLAIN = frozenset({".txt", ".md", ".markdown", ".rst", ".adoc", ".tex", ".csv", ".json", ".yaml", ".yml"})
HTML = frozenset({".html", ".htm", ".xhtml"})
PDF = ".pdf"
CODE = frozenset({".py", ".js", ".ts", ".c", ".h", ".cpp", ".hpp", ".cu", ".go", ".rs", ".java", ".sh"})
MAX_BYTES = 64 << 20
"""A longer file is refused."""


def documents_of(folder: Path, read_pdf: ReadPdf | None = None) -> Iterator[SourceDocument]:
    """The documents below a folder, or of one file, in the order of their names.

    Hidden files and files of other kinds are left out.  Raises OSError.
    """
    root = folder.parent if folder.is_file() else folder
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
        name = path.relative_to(root)
        if any(part.startswith(".") for part in name.parts) or not path.is_file():
            continue
        if path.suffix.lower() in PLAIN | HTML | CODE | {PDF}:
            yield _document(path, name.as_posix(), read_pdf)


def _document(path: Path, name: str, read_pdf: ReadPdf | None) -> SourceDocument:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return SourceDocument(name, digest, partial(_read, path, read_pdf), {"filename": path.name})


def _read(path: Path, read_pdf: ReadPdf | None) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES >> 20} MB")
    return text_of(path.read_bytes(), path.suffix.lower(), read_pdf)


def text_of(data: bytes, suffix: str, read_pdf: ReadPdf | None) -> str:
    """The text of a file of this kind.  Raises ValueError where it cannot be read."""
    if suffix == PDF:
        if read_pdf is None:
            raise ValueError("PDF files need `pip install pypdfium2`")
        return read_pdf(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text in UTF-8: {error}") from None
    if "\0" in text:
        raise ValueError("it is no text: it holds NUL")
    return text_of_html(text) if suffix in HTML else text
