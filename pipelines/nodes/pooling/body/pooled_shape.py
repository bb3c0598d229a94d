"""What the lines of a batcher's body hand on, as far as it is known when they are loaded.

Knows shapes; knows nothing of what computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.host.backends.device_errors import ModelError

if TYPE_CHECKING:
    from pipelines.loading import Resources


@dataclass(frozen=True)
class RowShape:
    """A row of `size` numbers for each text, or for each of its tokens."""

    per_token: bool
    size: int

    def __str__(self) -> str:
        return f"{self.size} numbers for each {'token' if self.per_token else 'text'}"


def given_above(resources: Resources) -> RowShape:
    """What the line that a step node reads gives.  Raises `ModelError` where it is no line of a body."""
    assert resources.binding is not None, "a node is loaded with its line"
    (source,) = resources.binding.sources.values()
    shape = getattr(resources.above.get(source.root), "gives", None)
    if not isinstance(shape, RowShape):
        raise ModelError(f"`from: {source.root}` gives no rows; an encoder has to stand above.")
    return shape
