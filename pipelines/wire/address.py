"""Where the work of an engine node is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine node's work is done: a model, one instance of it, and the node's name."""

    model: str
    instance_id: int
    node: str
