"""The records of the last requests, from one worker or from several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pipelines.telemetry.request_record import NUM_ERRORS, NUM_REQUESTS, ErrorRecord, RequestRecord

Record = TypeVar("Record", RequestRecord, ErrorRecord)


class LastRequests:
    """The last NUM_REQUESTS requests and NUM_ERRORS errors, the newest first; each once."""

    def __init__(self) -> None:
        self.requests: list[RequestRecord] = []
        self.errors: list[ErrorRecord] = []

    def add(self, requests: Sequence[RequestRecord], errors: Sequence[ErrorRecord]) -> None:
        """Add records in any order; those that are there already change nothing."""
        self.requests = _newest([*self.requests, *requests], NUM_REQUESTS)
        self.errors = _newest([*self.errors, *errors], NUM_ERRORS)


def _newest(records: list[Record], most: int) -> list[Record]:
    once = {(one.id, one.at, one.path): one for one in records}
    return [once[key] for key in sorted(once, key=lambda key: key[1], reverse=True)[:most]]
