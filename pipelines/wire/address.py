"""Where the work of an engine node is done."""

from __future__ import annotations

import msgspec


class EngineAddress(msgspec.Struct, frozen=True, array_like=True):
    """Where an engine node's work is done: a model, one instance of it, and the node's name."""

    model: str
    instance_id: int
    node: str
