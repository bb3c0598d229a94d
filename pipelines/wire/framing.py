"""Messages as bytes on a socket, and back.

A frame is a 4-byte little-endian length and a msgpack array whose first item names the message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pipelines.wire.messages import ToHost, ToWorker

MAX_FRAME_BYTES = 256 << 20
"""No message is longer.  A longer one is noise, and the connection that it came from is closed."""

_ENCODER = msgspec.msgpack.Encoder()


class MalformedFrame(Exception):
    """Bytes that are no message.  Framing is lost for good: close the connection."""


def encode(message: ToHost | ToWorker) -> bytes:
    """One frame.  Raises ValueError beyond MAX_FRAME_BYTES."""
    frame = bytearray(4)
    _ENCODER.encode_into(message, frame, 4)
    size = len(frame) - 4
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {size} bytes is longer than {MAX_FRAME_BYTES}")
    frame[:4] = size.to_bytes(4, "little")
    return bytes(frame)


class Framer:
    """Bytes in any pieces → whole messages, in order.  Holds at most one unfinished frame."""

    def __init__(self, kind: Any) -> None:
        """`kind` is `ToHost` or `ToWorker`."""
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that `data` completes.  Raises MalformedFrame; feed nothing after that."""
        if self._rest:
            self._rest += data
            with memoryview(self._rest) as unread:
                messages, end = self._whole(unread)
            del self._rest[:end]
        else:
            with memoryview(data) as unread:
                messages, end = self._whole(unread)
                self._rest += unread[end:]
        return messages

    def _whole(self, given: memoryview) -> tuple[list[Any], int]:
        """The whole messages at the beginning of `given`, and where they end."""
        messages, start = [], 0
        while len(given) - start >= 4:
            end = start + 4 + self._size(given[start : start + 4])
            if len(given) < end:
                break
            messages.append(self._message(given[start + 4 : end]))
            start = end
        return messages, start

    def _size(self, head: memoryview) -> int:
        size = int.from_bytes(head, "little")
        if size > MAX_FRAME_BYTES:
            raise MalformedFrame(f"a frame of {size} bytes is longer than {MAX_FRAME_BYTES}")
        return size

    def _message(self, body: memoryview) -> Any:
        try:
            return self._decode(body)
        except msgspec.DecodeError as error:
            raise MalformedFrame(str(error)) from error
