"""The text of PDF files of requests, read in a process beside the worker with bounded time and memory."""

from __future__ import annotations

import base64
import hashlib
from importlib.util import find_spec

from pipelines.base.bounded_processes import BoundedProcesses, OutOfBounds
from pipelines.base.cancellation import need_long_work
from pipelines.base.errors import BadDocument

READER = "pypdfium2"
INSTALL = f"the server has no {READER} to read it with: pip install 'braid-server[documents]'"
MAX_SECONDS = 20.0
MAX_MEMORY_BYTES = 1 << 30
MAX_CHARS = 2 << 20
NUM_STORED = 16
"""How many texts are stored: a conversation sends its files again with every request."""
PROCESSES = BoundedProcesses("server.media.pdf_reading", 1, MAX_MEMORY_BYTES, "read documents")

_stored: dict[bytes, str] = {}


def read_pdf(data: bytes, where: str) -> str:
    """The text of all pages.  Raises BadDocument, Unavailable, and WorkCancelled where the client left."""
    digest = hashlib.sha256(data).digest()
    text = _stored.pop(digest, None) or _read(data, where)
    _stored[digest] = text
    while len(_stored) > NUM_STORED:
        _stored.pop(next(iter(_stored)), None)
    return text


def _read(data: bytes, where: str) -> str:
    if find_spec(READER) is None:
        raise BadDocument(INSTALL, where)
    need_long_work()
    job = {"data": base64.b64encode(data).decode(), "max_chars": MAX_CHARS}
    try:
        answer: dict[str, str] = PROCESSES.outcome(job, MAX_SECONDS).value
    except OutOfBounds as error:
        raise BadDocument(str(error), where) from None
    if "error" in answer:
        raise BadDocument(answer["error"], where)
    if not answer["text"].strip():
        raise BadDocument("its pages have no text, only images", where)
    return answer["text"]
