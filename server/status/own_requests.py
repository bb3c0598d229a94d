"""The part of what engine hosts show that an account may see: the numbers of all, and its own requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from pipelines.telemetry.request_record import ErrorRecord, RequestRecord
from pipelines.wire.engine_view import SHARED, NodeView, is_own
from pipelines.wire.messages import Inspected

Record = TypeVar("Record", RequestRecord, ErrorRecord)


def own_records(records: Sequence[Record], account: str | None) -> list[Record]:
    return [one for one in records if account is None or one.account == account]


def own_requests(host: Inspected, account: str | None) -> Inspected:
    """The status without the requests of others; None: as it is."""
    return host if account is None else replace(host, nodes=[_own(view, account) for view in host.nodes])


def _own(view: NodeView, account: str) -> NodeView:
    """Blocks of others stay on the map, without an owner."""
    places = [place for place, one in enumerate(view.sequences) if is_own(one.tenant, account)]
    moved = {old: new for new, old in enumerate(places)}
    block_map = view.block_map and [
        (count, owner if owner < 0 else moved.get(owner, SHARED)) for count, owner in view.block_map
    ]
    return replace(view, sequences=[view.sequences[place] for place in places], block_map=block_map)
