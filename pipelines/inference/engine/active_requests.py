"""The requests that have not ended: their sequences, how one is cancelled, and how a fault ends it."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from pipelines.base.errors import EngineError
from pipelines.inference.engine.beam.beam_search import choices_of, sequences_to_cancel, whole_searches
from pipelines.inference.engine.interface.outputs import Output, aborted_output, failed_output
from pipelines.inference.engine.scheduling.scheduler import StepScheduler
from pipelines.inference.engine.sequences.sequence import Sequence

log = logging.getLogger(__name__)


class ActiveRequests:
    """A request is stored exactly while one of its sequences is active: a choice, or a beam of a search."""

    def __init__(self, scheduler: StepScheduler) -> None:
        self._scheduler = scheduler
        self._requests: dict[Hashable, dict[int, Sequence]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._requests

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def num_sequences(self) -> int:
        return sum(map(len, self._requests.values()))

    def add(self, key: Hashable, sequences: list[Sequence]) -> None:
        self._requests[key] = {sequence.choice: sequence for sequence in sequences}

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence from the queues and free its slot and blocks."""
        self._scheduler.remove(sequence)
        choices = self._requests[sequence.key]
        del choices[sequence.choice]
        if not choices:
            del self._requests[sequence.key]

    def cancel(self, key: Hashable, choice: int | None) -> None:
        """Remove one choice of a request, or all; what is unknown is no error."""
        cancelled = sequences_to_cancel(self._requests.get(key, {}), choice)
        for sequence in reversed(cancelled):  # followers before their leader, so that none inherits in vain
            self.remove(sequence)

    def abort(self, key: Hashable) -> list[Output]:
        """Remove a request as a client wishes that has not sent it: each of its choices ends so."""
        sequences = list(self._requests.get(key, {}).values())
        outputs = [
            aborted_output(key, choice, sequence) for sequence in sequences for choice in choices_of(sequence)
        ]
        self.cancel(key, choice=None)
        return outputs

    def among(self, sequences: list[Sequence]) -> list[Sequence]:
        """The sequences among `sequences` that have not ended."""
        return [one for one in sequences if self._requests.get(one.key, {}).get(one.choice) is one]

    def fail(self, sequences: list[Sequence], error: Exception) -> list[Output]:
        """End `sequences` with an error: the log has all of it, the client only its type, or its words where
        they were written for clients.
        """
        log.error("%d sequences failed with their step", len(sequences), exc_info=error)
        reason = error.message if isinstance(error, EngineError) else type(error).__name__
        message = f"the step that computed this request failed: {reason}"
        failed = whole_searches(sequences)
        for sequence in reversed(failed):
            self.remove(sequence)
        return [
            failed_output(sequence.key, choice, message)
            for sequence in failed
            for choice in choices_of(sequence)
        ]
