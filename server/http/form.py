"""Multipart forms: files, which go where the endpoint wants them, and the texts of the other fields."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import falcon
from falcon.asgi.multipart import BodyPart, MultipartForm
from falcon.media.multipart import MultipartParseOptions
from falcon.util.mediatypes import parse_header

from pipelines.base.errors import RequestError

MAX_PARTS = 64
MAX_NAME_CHARS = 128
MAX_TEXT_BYTES = 64 << 10
"""The most bytes of a field that is no file."""
MAX_BOUNDARY_CHARS = 70
"""The most characters of a boundary, as RFC 2046 says."""
LISTS = "[]"
"""What the name of a field ends with that may come more than once."""


File = TypeVar("File")


@dataclass(slots=True)
class UploadForm(Generic[File]):
    """`files` are the fields with a filename, `texts` the others, those named `...[]` as lists."""

    texts: dict[str, str | list[str]] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormReader(Generic[File]):
    """Reads forms; `take` reads the content of a file and bounds it."""

    content_type: str
    take: Callable[[BodyPart], Awaitable[File]]

    async def read(self, pieces: AsyncIterator[bytes]) -> UploadForm[File]:
        """The fields of a form of which `pieces` arrive.  Raises RequestError as soon as it is refused."""
        kind, options = parse_header(self.content_type)
        boundary = options.get("boundary", "")
        if kind != falcon.MEDIA_MULTIPART or not 0 < len(boundary) <= MAX_BOUNDARY_CHARS:
            raise RequestError(
                "Unsupported Media Type: send the file as multipart/form-data with a boundary", "Content-Type"
            )
        limits = MultipartParseOptions()
        limits.max_body_part_count = MAX_PARTS
        form: UploadForm[File] = UploadForm()
        try:
            async for part in MultipartForm(pieces, boundary.encode(), None, limits):  # type: ignore[arg-type]
                await self._add(form, part)
        except (falcon.HTTPError, ValueError) as error:
            text = getattr(error, "description", None) or str(error)
            raise RequestError(f"the form is not valid multipart/form-data: {text}") from None
        return form

    async def _add(self, form: UploadForm[File], part: BodyPart) -> None:
        name = part.name or ""
        if not name or len(name) > MAX_NAME_CHARS:
            raise RequestError(f"each field of the form needs a name of 1 to {MAX_NAME_CHARS} characters")
        is_list = name.endswith(LISTS)
        if name in form.files or (name in form.texts and not is_list):
            raise RequestError(f"`{name}` is given twice", field=name)
        if part.filename is not None:
            form.files[name] = await self.take(part)
            return
        text = await _text(part, name)
        if is_list:
            listed = form.texts.setdefault(name, [])
            assert isinstance(listed, list)
            listed.append(text)
        else:
            form.texts[name] = text


async def _text(part: BodyPart, name: str) -> str:
    data = await part.stream.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise RequestError(f"`{name}` may have {MAX_TEXT_BYTES} bytes at most", field=name)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RequestError(f"`{name}` must be UTF-8 text", field=name) from None
