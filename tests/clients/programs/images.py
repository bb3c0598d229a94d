"""Small images."""

import base64
import struct
import zlib


def png(*colours: tuple[int, int, int]) -> str:
    """32 × 32 pixels in vertical stripes, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + b"".join(bytes(colour) * (32 // len(colours)) for colour in colours)
    head = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    file = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 32)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + file).decode()
