"""The protocol of a guide, which restricts the tokens of one sequence: a grammar, or a reasoning budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class GuideError(Exception):
    """A guide cannot continue, and its sequence ends; the text is for the client."""

    status = 400


class LateMask(Protocol):
    """A mask that was not ready when its step needed it."""

    @property
    def is_ready(self) -> bool: ...

    def copy_to(self, bits: Any) -> bool:
        """Once it is ready: whether there is a mask, then written to `bits`.  Raises what `fill` raised."""


class MaskTiming:
    """What the masks of a guide take.  Each guide is one; its copies, for draft tokens, have no use of it.

    `is_slow`: its masks may take longer than a step, so that no other guide's wait for them.  `late`: the
    mask of the next token, where the last step did not get it; the token that it chose does not count.
    `is_over`: a mask took more than any may take, and the sequence ends.
    """

    is_slow = False
    is_over = False
    late: LateMask | None = None


class Guide(Protocol):
    """Follows one sequence from its first output token on, also across preemptions.

    Belongs to the engine's thread, but another one may call `fill` and `copy` between two steps, and while
    it is `late`.
    """

    is_slow: bool
    is_over: bool
    late: LateMask | None

    def restricts(self) -> bool:
        """Whether the next token is restricted at all; if not, `fill` is not called."""

    def fill(self, bits: Any) -> None:
        """Write the next token's mask: `bits` is int32[ceil(vocab / 32)], a set bit allows its id."""

    def append(self, token_id: int) -> list[int]:
        """Accept a chosen token; returns the tokens that must follow it, [] when several may.

        The engine appends those without a further call (this guide has accepted them). Raises GuideError.
        """

    def copy(self) -> Guide:
        """An independent guide in the same state, for draft tokens."""

    @property
    def finished(self) -> bool:
        """Whether the sequence has ended: the last token appended, or forced, is an end token."""


GuideMaker = Callable[[], Guide]
"""Makes a new guide for each choice of a request; cheap, since the grammar is compiled already."""
