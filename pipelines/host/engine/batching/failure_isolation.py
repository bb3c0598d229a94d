"""Batches that failed, run again in halves until one request fails alone: so the others still get results."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.host.engine.batching.batched_request import BatchPart, Texts


class FailedBatches:
    """The failed batches that are to run again. Invariant: none is empty."""

    def __init__(self) -> None:
        self._batches: list[list[BatchPart]] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def num_texts(self) -> int:
        return sum(len(part) for parts in self._batches for part in parts)

    def add(self, parts: Sequence[BatchPart]) -> bool:
        """Queue each half of a batch's requests; False where it has one request, or none."""
        requests = list(dict.fromkeys(part.texts for part in parts))
        first = {*requests[: len(requests) // 2]}
        if not first:
            return False
        halves = ([part for part in parts if (part.texts in first) is there] for there in (False, True))
        self._batches += halves
        return True

    def take(self) -> list[BatchPart]:
        """The next batch, from its longest texts down; there is one."""
        return self._batches.pop()

    def drop(self, texts: Texts) -> None:
        """Remove the parts of a request."""
        remaining = ([part for part in parts if part.texts is not texts] for parts in self._batches)
        self._batches = [parts for parts in remaining if parts]
