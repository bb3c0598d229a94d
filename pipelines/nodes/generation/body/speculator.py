"""What all guess nodes share: a step in, the step with guesses out.

Knows their settings; knows nothing of how they guess.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from graphs.node import Node, Place

ADAPTIVE: Any = Field(default=True, description="guess only as much as pays, at the load of the moment")
"""The setting `adaptive`."""


class Guesser(Node):
    """Stands in a body before its model; its Config has `num_guesses`."""

    place: ClassVar[Place] = "step"

    @property
    def num_guesses(self) -> int:
        """Most tokens that it puts behind a sequence in a step."""
        limit: int = self.config.num_guesses
        return limit
