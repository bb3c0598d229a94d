"""Batches that failed, to be run again in halves, until one request fails alone: the others are not at fault.

Knows pieces and their requests; knows nothing of queues, nor of why a batch failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.host.engine.batching.batched_request import Piece, Texts


class Suspects:
    """What is left to run again.  Invariant: no batch of it is empty."""

    def __init__(self) -> None:
        self._batches: list[list[Piece]] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def num_texts(self) -> int:
        return sum(len(piece) for pieces in self._batches for piece in pieces)

    def add(self, pieces: Sequence[Piece]) -> bool:
        """Have each half of a batch's requests run again; False where it holds one request, or none."""
        requests = list(dict.fromkeys(piece.texts for piece in pieces))
        first = {*requests[: len(requests) // 2]}
        if not first:
            return False
        halves = ([piece for piece in pieces if (piece.texts in first) is there] for there in (False, True))
        self._batches += halves
        return True

    def take(self) -> list[Piece]:
        """The next batch, from its longest texts down; there is one."""
        return self._batches.pop()

    def drop(self, texts: Texts) -> None:
        """Forget what is here of a request."""
        kept = ([piece for piece in pieces if piece.texts is not texts] for pieces in self._batches)
        self._batches = [pieces for pieces in kept if pieces]
