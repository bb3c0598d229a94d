"""The text of PDF files of requests, read in a process beside the worker with bounded time and memory."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock

from pipelines.base.bounded_processes import BoundedProcesses, OutOfBounds
from pipelines.base.cancellation import need_long_work
from pipelines.base.errors import BadDocument

READER = "pypdfium2"
INSTALL = f"the server has no {READER} to read it with: pip install 'braid-server[documents]'"
MAX_SECONDS = 20.0
MAX_MEMORY_BYTES = 1 << 30
MAX_CHARS = 2 << 20
"""The most that all files of one request take and have."""
NUM_STORED = 16
"""How many texts are stored: a conversation sends its files again with every request."""
PROCESSES = BoundedProcesses("server.media.pdf_reading", 1, MAX_MEMORY_BYTES, "read documents")


@dataclass(slots=True)
class Left:
    """What the files of a request may still take: seconds of a processor, and characters."""

    seconds: float
    chars: int


_stored: dict[bytes, str] = {}
_lock = Lock()


def read_pdf(data: bytes, where: str, left: Left) -> str:
    """The text of all pages, which is taken from what is `left`.

    Raises BadDocument, Unavailable, and WorkCancelled where the client left.
    """
    digest = hashlib.sha256(data).digest()
    with _lock:
        text = _stored.pop(digest, None)
    text = text or _read(data, where, left)
    with _lock:
        _stored[digest] = text
        while len(_stored) > NUM_STORED:
            _stored.pop(next(iter(_stored)))
    left.chars -= len(text)
    if left.chars < 0:
        raise BadDocument(f"the PDF files of a request may have {MAX_CHARS} characters together", where)
    return text


def _read(data: bytes, where: str, left: Left) -> str:
    if find_spec(READER) is None:
        raise BadDocument(INSTALL, where)
    need_long_work()
    if left.seconds <= 0:
        raise BadDocument(f"the PDF files of a request may take {MAX_SECONDS:g} s together", where)
    job = {"data": base64.b64encode(data).decode(), "max_chars": MAX_CHARS}
    try:
        done = PROCESSES.outcome(job, left.seconds)
    except OutOfBounds as error:
        raise BadDocument(str(error), where) from None
    answer: dict[str, str] = done.value
    left.seconds -= done.took_s
    if "error" in answer:
        raise BadDocument(answer["error"], where)
    if not answer["text"].strip():
        raise BadDocument("its pages have no text, only images", where)
    return answer["text"]
