"""Batches that failed, run again in halves until one request fails alone: so the others still get results."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from pipelines.inference.engine.interface.engine_contract import ResultCallback


class Joined(Protocol):
    """A request that runs together with others."""

    @property
    def key(self) -> Hashable: ...
    @property
    def on_result(self) -> ResultCallback: ...
    @property
    def arrived_s(self) -> float: ...


AnyRequest = TypeVar("AnyRequest", bound=Joined, covariant=True)


class Part(Protocol[AnyRequest]):
    """What a batch holds of one request; its length is how many texts that is, 1 for tensors."""

    @property
    def request(self) -> AnyRequest: ...
    def __len__(self) -> int: ...


AnyPart = TypeVar("AnyPart", bound=Part[Joined])


class FailedBatches(Generic[AnyPart]):
    """The failed batches that are to run again; iterates over their parts. Invariant: none is empty."""

    def __init__(self) -> None:
        self._batches: list[list[AnyPart]] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[AnyPart]:
        return (part for parts in self._batches for part in parts)

    def add(self, parts: Sequence[AnyPart]) -> bool:
        """Queue each half of a batch's requests; False where it has one request, or none."""
        requests = list(dict.fromkeys(part.request for part in parts))
        first = {*requests[: len(requests) // 2]}
        if not first:
            return False
        halves = ([part for part in parts if (part.request in first) is there] for there in (False, True))
        self._batches += halves
        return True

    def take(self) -> list[AnyPart]:
        """The next batch, its parts in order; there is one."""
        return self._batches.pop()

    def drop(self, request: Joined) -> None:
        """Remove the parts of a request."""
        remaining = ([part for part in parts if part.request is not request] for parts in self._batches)
        self._batches = [parts for parts in remaining if parts]
