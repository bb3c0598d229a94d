"""The texts of uploaded files: which of them can be read, and why others cannot."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import PurePath

from pipelines.base.errors import BraidError
from pipelines.retrieval.source_files import CODE, HTML, MAX_BYTES, PDF, PLAIN, text_of
from server.apis.batches.files.content_folder import ContentFolder
from server.apis.retrieval.stores.rows import StoreFileRow
from server.media.pdf_text import MAX_CHARS, MAX_SECONDS, READER, Left, read_pdf

UNSUPPORTED, INVALID = "unsupported_file", "invalid_file"


class FileTexts:
    """Reads files of one update; `errors` has the code and the message of each that cannot be read."""

    def __init__(self, folder: ContentFolder) -> None:
        self._folder = folder
        self.errors: dict[str, tuple[str, str]] = {}

    def read(self, file: StoreFileRow) -> str:
        """Raises ValueError for a file that cannot be read."""
        suffix = PurePath(file.filename).suffix.lower()
        try:
            text = text_of(self._content(file.id), suffix, _read_pdf if find_spec(READER) else None)
            if not text.strip():
                raise ValueError("it has no text")
        except (BraidError, ValueError) as error:
            is_known = suffix in PLAIN | HTML | CODE or (suffix == PDF and find_spec(READER))
            self.errors[file.id] = (INVALID if is_known else UNSUPPORTED), str(error)
            raise ValueError(str(error)) from None
        return text

    def _content(self, file_id: str) -> bytes:
        if not self._folder.file(file_id).exists():
            raise ValueError("the file was deleted before it was read")
        with self._folder.read(file_id) as content:
            data = content.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is longer than {MAX_BYTES >> 20} MB")
        return data


def _read_pdf(data: bytes) -> str:
    return read_pdf(data, "file", Left(MAX_SECONDS, MAX_CHARS))
