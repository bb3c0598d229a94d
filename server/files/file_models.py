"""OpenAI's file objects as replies."""

from __future__ import annotations

from typing import Literal

from server.files.file_table import Purpose
from server.generation.replies.reply_models import Reply


class FileObject(Reply):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(Reply):
    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedFile(Reply):
    id: str
    object: Literal["file"] = "file"
    deleted: bool = True
