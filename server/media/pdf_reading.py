"""Reads the text of a PDF file, in a process of its own (`pipelines.base.bounded_process`)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pypdfium2

HYPHEN = "\ufffe"
"""What PDFium writes for a hyphen at the end of a line."""


def outcome(job: dict[str, Any]) -> dict[str, str]:
    """The text of a job's `data`, or why there is none."""
    try:
        document = pypdfium2.PdfDocument(base64.b64decode(job["data"]))
        pages, left = [], job["max_chars"]
        for page in _pages(document):
            pages.append(page)
            if (left := left - len(page)) < 0:
                return {"error": f"it has more than {job['max_chars']} characters"}
        return {"text": "\n\n".join(pages)}
    except pypdfium2.PdfiumError as error:
        return {"error": str(error)}


def _pages(document: Any) -> Iterator[str]:
    """The text of each page, without what is freed before the next."""
    for page in document:
        textpage = page.get_textpage()
        text = textpage.get_text_bounded()
        textpage.close()
        page.close()
        yield text.replace("\r\n", "\n").replace(HYPHEN, "-").replace("\0", "").strip()
