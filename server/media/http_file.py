"""One GET over a connection that is open: the status, where it redirects to, and a bounded body."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httptools

MAX_HEAD_BYTES = 32 << 10
READ_BYTES = 64 << 10
HEAD = (
    "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: braid\r\nAccept: image/*, */*;q=0.1\r\n"
    "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
)


class BadReply(Exception):
    """What came is no whole file within the bound; the message says why."""


@dataclass
class HttpFile:
    """The reply as it arrives; its methods `on_…` are called by the parser."""

    max_bytes: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    is_whole: bool = False

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False

    def feed(self, data: bytes) -> None:
        """Raises BadReply."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            raise cause if isinstance(cause, BadReply) else BadReply("the reply is no HTTP") from None

    def end(self) -> None:
        """The server closed the connection.  Raises BadReply where a part is missing."""
        framed = {"content-length", "transfer-encoding"} & self.headers.keys()
        if not self.is_whole and (framed or not self._has_head):
            raise BadReply("the connection ended before the whole file was sent")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._has_head = True
        self.status = self._parser.get_status_code()
        if self.status != 200:
            self.is_whole = True  # its body is not read
            return
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BadReply("the file is compressed, though this was not asked for")
        length = self.headers.get("content-length", "0")
        if int(length) > self.max_bytes:
            raise self._too_long()

    def on_body(self, data: bytes) -> None:
        if self.status != 200:
            return
        if len(self.data) + len(data) > self.max_bytes:
            raise self._too_long()
        self.data += data

    def on_message_complete(self) -> None:
        self.is_whole = self._has_head

    def _too_long(self) -> BadReply:
        return BadReply(f"the file has more than {self.max_bytes / 1e6:g} MB")


async def get(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, target: str, max_bytes: int
) -> HttpFile:
    """Ask for a file and read it; of a reply that is no file its head alone.  Raises BadReply, OSError."""
    file = HttpFile(max_bytes)
    writer.write(HEAD.format(target=target, host=host).encode("ascii"))
    num_head_bytes = 0
    while not file.is_whole:
        data = await reader.read(READ_BYTES)
        if not data:
            file.end()
            break
        file.feed(data)
        num_head_bytes += 0 if file.status else len(data)
        if num_head_bytes > MAX_HEAD_BYTES:
            raise BadReply("the head of the reply is too long")
    return file
