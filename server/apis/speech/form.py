"""The form of a recording: its file in memory, bounded while it arrives."""

from __future__ import annotations

import io

from falcon.asgi.multipart import BodyPart

from pipelines.base.errors import RequestError
from server.http.form import FormReader


def sound_form(content_type: str, max_bytes: int) -> FormReader[bytes]:
    """Reads a form whose files have `max_bytes` together at most."""
    size = 0

    async def take(part: BodyPart) -> bytes:
        nonlocal size
        data = io.BytesIO()
        async for piece in part.stream:
            size += data.write(piece)
            if size > max_bytes:
                size_mb = size / (1 << 20)
                raise RequestError(
                    f"Maximum file size exceeded (parameter=audio_filesize_mb, value={size_mb})",
                    "audio_filesize_mb",
                )
        return data.getvalue()

    return FormReader(content_type, take)
