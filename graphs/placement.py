"""Which of the two processes runs a line of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from graphs.graph import Binding

Process = Literal["worker", "host"]

PROCESSES: Mapping[Process, str] = {"worker": "worker", "host": "engine host"}
"""Each process in the words that people read."""


def process(binding: Binding) -> Process:
    """The process of a line: request nodes run in a worker, engine nodes and their bodies in the host."""
    return "worker" if binding.type.place == "request" else "host"
