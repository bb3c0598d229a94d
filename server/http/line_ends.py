"""Keeps a line of JSON whole for clients that read line by line.

Python's `str.splitlines`, and httpx's `iter_lines` with it, also end a line at three characters that may
stand in a string of JSON.  Escaped, a line stays whole for every client.
"""

from __future__ import annotations

ESCAPED = {end.encode(): rb"\u%04x" % ord(end) for end in ("\x85", "\u2028", "\u2029")}
"""The bytes of such a character in UTF-8 → what stands for it in a string of JSON."""


def escape_line_ends(data: bytes) -> bytes:
    """Escapes them in the strings of `data`."""
    for end, escaped in ESCAPED.items():
        if end in data:
            data = data.replace(end, escaped)
    return data
