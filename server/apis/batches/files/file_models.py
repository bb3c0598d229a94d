"""OpenAI's file objects as replies."""

from __future__ import annotations

from typing import Literal

from server.apis.batches.files.file_table import Purpose
from server.apis.batches.files.page_reply import Identified, PageReply
from server.schema.reply_models import Reply


class FileObject(Identified):
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(PageReply[FileObject]):
    pass


class DeletedFile(Reply):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True
