"""The documents of a folder: texts, Markdown, HTML, and PDF where a reader for it is given."""

from __future__ import annotations

import hashlib
import os
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
            read = partial(_read, path, read_pdf)
            yield SourceDocument(_shown(name), _digest(path), read, {"filename": _shown(Path(path.name))})


def _shown(name: Path) -> str:
    """A name as text: bytes that are not UTF-8 stand in it as \\xff."""
    return os.fsencode(name.as_posix()).decode("utf-8", "backslashreplace")


def _digest(path: Path) -> str:
    """The digest of a file's content; empty where it cannot be read: to read its text will say why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


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
