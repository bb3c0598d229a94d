"""The base of all speculation nodes: a step in, the step with draft tokens out."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from graphs.node import Node, Place

ADAPTIVE: Any = Field(
    default=True, description="propose only as many draft tokens as pay off at the current load"
)
"""The setting `adaptive`."""

RENAMED = {"num_guesses": "num_draft_tokens"}
"""Former names of settings."""


class Speculator(Node):
    """A line of a body before its model; its Config has `num_draft_tokens`."""

    place: ClassVar[Place] = "step"

    @property
    def num_draft_tokens(self) -> int:
        """Most tokens that it adds to a sequence in a step."""
        limit: int = self.config.num_draft_tokens
        return limit
