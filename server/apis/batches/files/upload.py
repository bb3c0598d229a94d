"""Uploads: a file of a form goes to the disk while it arrives, bounded, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Literal

from falcon.asgi.multipart import BodyPart
from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import MissingField, RequestError
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.validation import from_validation
from server.apis.batches.files.content_folder import ContentFolder
from server.apis.batches.files.file_table import StoredFile, UploadPurpose
from server.http.errors import BodyTooLarge
from server.http.form import UploadForm

WRITE_BYTES = 1 << 20
"""Bytes that are written at a time."""
MAX_FILENAME_CHARS = 255


class UploadRequest(DeferredModel):
    """The form of POST files; unknown fields are ignored, and reported where they are misspelt."""

    model_config = ConfigDict(extra="allow")

    file: bytes = Field(json_schema_extra={"format": "binary"})
    purpose: UploadPurpose
    anchor: Literal["created_at"] | None = Field(default=None, alias="expires_after[anchor]")
    expires_s: int | None = Field(default=None, ge=3600, le=2_592_000, alias="expires_after[seconds]")

    @model_validator(mode="after")
    def _check_fields(self) -> UploadRequest:
        if (self.anchor is None) != (self.expires_s is None):
            raise PydanticCustomError("plain_error", "`expires_after` must have `anchor` and `seconds`")
        aliases = [each.alias or name for name, each in type(self).model_fields.items()]
        check_fields(self.model_extra or {}, aliases)
        return self


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form that is on the disk."""

    filename: str
    size: int


@dataclass(frozen=True, slots=True)
class UploadSink:
    """Writes the file of one form as `file_id`; call it once.

    `check_disk` raises StorageFull where the disk has no room for that number of bytes.
    """

    folder: ContentFolder
    file_id: str
    max_bytes: int
    check_disk: Callable[[int], None]

    async def take(self, part: BodyPart) -> Upload:
        """Raises BodyTooLarge as soon as the file is, RequestError for a second file, and StorageFull."""
        if part.name != "file":
            raise RequestError(f"`{part.name}` must not be a file; the file is the field `file`", part.name)
        size, waiting = 0, bytearray()
        with ExitStack() as stack:
            file = stack.enter_context(self.folder.writing(self.file_id))
            async for piece in part.stream:
                size += len(piece)
                if size > self.max_bytes:
                    raise BodyTooLarge(
                        f"a file may have {self.max_bytes} bytes at most (BRAID_FILE_MB)", field="file"
                    )
                waiting += piece
                if len(waiting) >= WRITE_BYTES:
                    await asyncio.to_thread(self._write, file, waiting)
                    waiting = bytearray()
            await asyncio.to_thread(self._write, file, waiting)
            await asyncio.to_thread(stack.close)
        return Upload((part.filename or "upload")[:MAX_FILENAME_CHARS], size)

    def _write(self, file: BinaryIO, piece: bytes | bytearray) -> None:
        self.check_disk(len(piece))
        file.write(piece)


def stored_file(
    form: UploadForm[Upload], file_id: str, account: str, now: float, max_age_s: float
) -> StoredFile:
    """The row of an uploaded file.  Raises RequestError."""
    if isinstance(form.texts.get("file"), str):
        raise RequestError("`file` must be a file of the form, not a text", "file")
    if "file" not in form.files:
        raise MissingField("`file` is required, as a file of the form", "file")
    try:
        request = UploadRequest.model_validate({**form.texts, "file": b""})
    except ValidationError as error:
        raise from_validation(error) from None
    upload, expires_s = form.files["file"], request.expires_s
    age_s = max_age_s if expires_s is None else min(expires_s, max_age_s)
    return StoredFile(file_id, account, request.purpose, upload.filename, upload.size, now, now + age_s)
