"""Pipelines of models: what runs a graph, in workers, in the engine host, and in this process (`Local`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.local.local import Local

__all__ = ["Local"]


def __getattr__(name: str) -> Any:
    """Import `Local` when it is used: each process imports this package, and few of them need it."""
    if name != "Local":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipelines.local.local import Local

    return Local
