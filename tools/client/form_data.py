"""Bodies of forms with a file, as paths for uploads read them."""

from __future__ import annotations

from collections.abc import Mapping

BOUNDARY = "form-7d1f0c5ab3"
HEADERS: Mapping[str, str] = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
"""The headers of such a body."""


def form_data(fields: Mapping[str, str], file_name: str, content: bytes) -> bytes:
    """multipart/form-data with these fields, and with a file as the field `file`."""
    part = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    head = "".join(f'{part}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    head += f'{part}"file"; filename="{file_name}"\r\n\r\n'
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
