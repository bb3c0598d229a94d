"""Streams of composed graphs: what comes piece by piece comes once, so that one line reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_origin

from graphs.graph import Binding, Graph
from pipelines.values.stream_values import Stream


def read_twice(graph: Graph) -> tuple[Binding, str] | None:
    """The line that reads a stream which another line has read, and what that one reads; None: there is none.

    Lines that ask models read a stream whole, unless they read its pieces; the reply is read piece by piece.
    A line reads the stream of another one too where both add stages to the same stream.
    """
    begun: dict[str, str] = {}  # line that gives a stream → the line where that stream begins
    ends: dict[str, str] = {}  # beginning of a stream → the line as which it was read
    for line in graph.bindings:
        read = [source.root for source in line.sources.values() if source.root in begun]
        asks = hasattr(line.type, "compose")
        gives_stream = get_origin(line.gives) is Stream
        if gives_stream:
            begun[line.name] = begun[read[0]] if read and not asks else line.name
        whole = [(name, name) for name in read] if asks else []
        if getattr(line.type, "reads_pieces", False):
            whole = [(name, line.name) for name in read]
        as_reply = [(line.name, line.name)] if gives_stream and line is graph.result else []
        if (other := _other(ends, begun, [*whole, *as_reply])) is not None:
            return line, other
    return None


def _other(ends: dict[str, str], begun: Mapping[str, str], read: list[tuple[str, str]]) -> str | None:
    """Note what is read, and as which line; the line as which one of its streams was read before."""
    for name, read_as in read:
        if ends.setdefault(begun[name], read_as) != read_as:
            return ends[begun[name]]
    return None
