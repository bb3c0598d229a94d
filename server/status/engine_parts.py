"""What engine hosts show of themselves, as parts of the feed.  Several engines are put side by side."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from pipelines.wire.engine_view import MAX_SEQUENCES, SHARED, ModelTotals
from pipelines.wire.messages import Inspected
from server.status.reply_models import CacheBlocks, EnginePart, QueuePart, RequestPart

NOT_SHOWN = ("name", "tenant")


def engine_parts(num_engines: int, inspected: Sequence[Inspected]) -> list[EnginePart]:
    """Every engine of the server; one that did not reply is down."""
    found = {one.engine: one for one in inspected}
    return [_engine(str(number), found.get(str(number))) for number in range(num_engines)]


def _engine(engine: str, inspected: Inspected | None) -> EnginePart:
    if inspected is None:
        return EnginePart(engine=engine, state="down")
    process = inspected.process
    return EnginePart(
        engine=engine, state=inspected.state, pid=process.pid, resident_bytes=process.resident_bytes
    )


def queue_parts(model: str, inspected: Sequence[Inspected]) -> tuple[list[QueuePart], list[RequestPart]]:
    """The queues of a model's engine nodes, and the requests in them, at most MAX_SEQUENCES."""
    queues: list[QueuePart] = []
    requests: list[RequestPart] = []
    for host in inspected:
        for view in host.nodes:
            first, room = len(requests), MAX_SEQUENCES - len(requests)
            requests += [
                RequestPart(
                    id=sequence.name,
                    engine=host.engine,
                    node=view.node,
                    model=model,
                    **{name: value for name, value in asdict(sequence).items() if name not in NOT_SHOWN},
                )
                for sequence in view.sequences[:room]
            ]
            blocks = view.blocks
            queues.append(
                QueuePart(
                    engine=host.engine,
                    node=view.node,
                    kind=view.kind,
                    running=view.running,
                    waiting=view.waiting,
                    swapped=view.swapped,
                    blocks=None if blocks is None else CacheBlocks.model_validate(blocks),
                    map=_moved(view.block_map, first, room),
                )
            )
    return queues, requests


def _moved(
    block_map: Sequence[tuple[int, int]] | None, first: int, room: int
) -> list[tuple[int, int]] | None:
    """A map whose owners are the requests from `first` on; those beyond `room` are not listed."""
    if block_map is None:
        return None
    return [
        (count, owner if owner < 0 else first + owner if owner < room else SHARED)
        for count, owner in block_map
    ]


def summed_totals(inspected: Sequence[Inspected]) -> ModelTotals:
    fields = ModelTotals.__struct_fields__
    return ModelTotals(*(sum(getattr(one.totals, name) for one in inspected) for name in fields))
