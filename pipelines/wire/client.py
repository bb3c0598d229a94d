"""The worker's end of the wire: one `EngineClient` per worker process, used from one event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import cast

from msgspec.structs import replace

from pipelines.base.errors import BraidError, Overloaded, RequestError, Unavailable
from pipelines.telemetry.last_requests import LastRequests
from pipelines.telemetry.request_record import NUM_ERRORS, NUM_REQUESTS, ErrorRecord, RequestRecord
from pipelines.wire.connection import Connect
from pipelines.wire.host_errors import host_error, lost_error
from pipelines.wire.messages import (
    Abort,
    Frame,
    Inferred,
    InUse,
    ModelStatus,
    ReportRequests,
    Status,
    TokenUpdate,
    ToWorker,
)
from pipelines.wire.questions import HostQuestions
from pipelines.wire.requests import Submit, SubmitTensors
from pipelines.wire.tensor_codec import unpack
from pipelines.wire.update_queue import PendingReply, UpdateQueue

__all__ = ["EngineClient", "ModelStatus", "Status", "TokenUpdate", "UpdateQueue"]

log = logging.getLogger("braid.wire")

STUCK = "the server was stopped while it was paused, so this could not go on; send the request again"
"""The error of requests that a paused server has not answered when it ends."""


class EngineClient(HostQuestions):
    """Sends requests to the engine host and puts what comes back into each request's queue.

    A request is in `_queues` from `submit` until its last choice ended.  After a lost connection nothing is
    sent again: the requests failed, and the host frees what they held.
    """

    def __init__(self, connect: Connect, ids: Iterator[int] | None = None) -> None:
        """`ids` are those of the requests; default: 1, 2 and so on."""
        super().__init__(connect, ids)
        self._queues: dict[int, UpdateQueue | PendingReply] = {}
        self._reported = LastRequests()  # by this worker, for a host that is new

    @property
    def num_in_flight(self) -> int:
        return len(self._queues)

    def route(self, key: str | None) -> EngineClient:
        """The way of one call's requests: there is one host, whatever they have alike with others."""
        return self

    def submit(self, message: Submit | SubmitTensors, pending: UpdateQueue | PendingReply) -> int:
        """Send a request; what comes back goes to `pending`, a fresh one.  Gives back the request's id.

        Updates of a Submit go to an UpdateQueue, the answer to a SubmitTensors to a PendingReply.
        Raises Unavailable when no host listens, or it is draining or paused for good, RequestError for more
        than the wire carries.  Returns before the host has read it: later errors come through `pending`.
        """
        link = self._listening_link()
        if self._is_stuck and isinstance(message, Submit):
            raise Unavailable(STUCK)
        request_id = next(self._ids)
        try:
            link.send(replace(message, request_id=request_id))
        except ValueError as error:
            raise RequestError(f"the {message.long_part} are too long: {error}") from error
        pending.open.update(range(message.num_choices))
        self._queues[request_id] = pending
        return request_id

    def report_use(self, instance_ids: list[int], status: int = 0) -> bool:
        """Name to the host the model instances that this worker calls; false when no host listens."""
        if self._link is None or self._status is None:
            return False
        self._link.send(InUse(instance_ids, status))
        return True

    def report(self, requests: Sequence[RequestRecord], errors: Sequence[ErrorRecord]) -> None:
        """Have the host hold the records of requests that have ended; a host that is new gets the last ones
        of this worker again.
        """
        self._reported.add(requests, errors)
        if self._status is not None:
            self._send(ReportRequests(list(requests[-NUM_REQUESTS:]), list(errors[-NUM_ERRORS:])))

    def abort(self, request_id: int, choice: int = -1) -> None:
        """Cancel a choice (-1: the request): the host frees it within a step.

        The update queue counts it as ended.  A request or choice that has ended is left alone.
        """
        update_queue = self._queues.get(request_id)
        if update_queue is None or (choice >= 0 and choice not in update_queue.open):
            return
        if choice < 0:
            update_queue.end()
        else:
            update_queue.drop(choice)
        self._remove_ended(request_id, update_queue)
        self._send(Abort(request_id, choice))

    def release(self, request_id: int) -> None:
        """The outputs that the host holds of a request are not needed any more."""
        self._send(Abort(request_id))

    def abort_all(self, error: BraidError) -> None:
        """End every request in flight with `error`, here and in the host."""
        for request_id, update_queue in list(self._queues.items()):
            self._end_request(request_id, update_queue, error)

    def end(self, reason: str) -> None:
        """Note that the server ends: requests to a paused host fail, now and later."""
        super().end(reason)
        self._fail_if_stuck()

    def _fail_if_stuck(self) -> None:
        if self._is_stuck:
            for request_id, update_queue in list(self._queues.items()):
                if isinstance(update_queue, UpdateQueue):
                    self._end_request(request_id, update_queue, Unavailable(STUCK))

    @property
    def _is_stuck(self) -> bool:
        """Whether what is to be generated can never go on."""
        return self._end is not None and self._status is not None and self._status.is_paused

    def _end_request(self, request_id: int, pending: UpdateQueue | PendingReply, error: BraidError) -> None:
        """Here and in the host."""
        pending.fail(error)
        self._queues.pop(request_id)
        self._send(Abort(request_id))

    def received(self, message: ToWorker) -> None:
        if isinstance(message, Frame):
            for update in message.updates:
                self._deliver(update)
        elif isinstance(message, Inferred):
            self._answer(message)
        else:
            super().received(message)

    def lost(self, error: BraidError | None = None) -> None:
        failed, self._queues = self._queues, {}
        if failed:
            log.warning("connection to the engine lost: %d requests fail", len(failed))
        for update_queue in failed.values():
            update_queue.fail(error or lost_error())
        super().lost(error)

    def _set_status(self, status: Status | None) -> None:
        is_new = self._status is None and status is not None
        super()._set_status(status)
        self._fail_if_stuck()
        reported = self._reported
        if is_new and (reported.requests or reported.errors):
            self._send(ReportRequests(reported.requests, reported.errors))

    def _deliver(self, update: TokenUpdate) -> None:
        update_queue = cast(UpdateQueue | None, self._queues.get(update.request_id))
        if update_queue is None:
            return
        if update.piece.finish == "error":
            self._fail(update, update_queue)
        else:
            update_queue.put(update)
            if update_queue.is_overfull:
                update_queue.fail(
                    Overloaded("the client reads its stream too slowly; read on while it comes")
                )
                self._send(Abort(update.request_id))
            self._remove_ended(update.request_id, update_queue)

    def _fail(self, update: TokenUpdate, update_queue: UpdateQueue) -> None:
        """One failed choice fails its request: the client gets one answer, and it is an error."""
        open_choices = update_queue.open - {update.choice}
        update_queue.fail(host_error(update))
        self._queues.pop(update.request_id)
        if open_choices:
            self._send(Abort(update.request_id))

    def _answer(self, message: Inferred) -> None:
        slot = cast(PendingReply | None, self._queues.pop(message.request_id, None))
        if slot is None:
            return
        if message.error is not None:
            slot.fail(host_error(message))
        else:
            slot.put(unpack(message.outputs))

    def _remove_ended(self, request_id: int, update_queue: UpdateQueue | PendingReply) -> None:
        if not update_queue.open:
            self._queues.pop(request_id, None)
