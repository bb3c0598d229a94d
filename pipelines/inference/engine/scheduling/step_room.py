"""What is left for waiting sequences while a step is planned."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.inference.engine.scheduling.tenant_shares import TenantShares, is_background
from pipelines.inference.engine.sequences.sequence import Sequence


@dataclass(slots=True)
class EngineRoom:
    """What running sequences leave of the blocks, and what their tenants hold."""

    num_reserved: int
    """Blocks that the pending tokens of running sequences will take."""
    num_resting: int
    """Running sequences that take no block in this step: beams that wait for the others of their search."""
    shares: TenantShares | None
    """What each tenant holds; None while the sequences of one tenant alone wait."""

    def take(self, sequence: Sequence, num_reserved: int) -> None:
        """A sequence was admitted, whose pending tokens will take `num_reserved` blocks."""
        self.num_reserved += num_reserved
        if self.shares is not None:
            self.shares.add(sequence)


@dataclass(slots=True)
class StepRoom:
    """What the slices of a step leave of its tokens."""

    num_tokens: int
    num_background: int
    """Tokens of background sequences among them."""

    def allows(self, sequence: Sequence, num_rows: int | None) -> bool:
        """Whether the step may compute something of a sequence: a scored prompt needs one of the `num_rows`
        logit rows that are left for scores, a background sequence one of the tokens that others leave.
        """
        return num_rows != 0 and (self.num_background > 0 or not is_background(sequence))

    def take(self, sequence: Sequence, num_rows: int | None) -> int:
        """Tokens that a sequence gets which was admitted; 0: it begins with the next step.

        An image that must stay whole is not cut to what is left for background sequences, or it would never
        fit.
        """
        pending = sequence.num_to_branch
        if num_rows is not None:
            pending = min(pending, sequence.num_scorable(num_rows))
        if is_background(sequence) and sequence.request.uncut is None:
            pending = min(pending, self.num_background)
        num_tokens = sequence.num_uncut(min(pending, self.num_tokens))
        self.num_tokens -= num_tokens
        self.num_background -= num_tokens if is_background(sequence) else 0
        return num_tokens
