"""What restrains the tokens of one sequence: a grammar, or a bound on its reasoning.

Knows the protocol only; `pipelines/host/guides` makes guides, the engine asks them, the grammar node applies
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class GuideError(Exception):
    """A guide cannot go on, and its sequence ends; the text is for the client, who asked for too much."""

    status = 400


class Guide(Protocol):
    """Follows one sequence from its first output token on.  It outlives a preemption.

    Belongs to the engine's thread, but another one may ask for masks and take copies between two steps.
    """

    def restricts(self) -> bool:
        """Whether the next token is restricted at all; when not, `fill` is not asked."""

    def fill(self, bits: Any) -> None:
        """Write the next token's mask: `bits` is int32[ceil(vocab / 32)], a set bit allows its id."""

    def append(self, token_id: int) -> list[int]:
        """An allowed token was chosen, be it the last; gives those that must follow it, [] when it is open.

        The engine appends those without asking (this guide has taken them already).  Raises GuideError.
        """

    def copy(self) -> Guide:
        """Another one at the same place, which goes its own way: it takes tokens that are only drafted."""

    @property
    def finished(self) -> bool:
        """Whether nothing may follow: the sequence ends here, as if the model had ended it."""


GuideMaker = Callable[[], Guide]
"""A fresh guide for each choice of a request; cheap, what is costly was done before."""
