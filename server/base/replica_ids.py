"""Ids of responses that name the server which stores them, where several servers share one address.

`resp_b_0123…`: the response is stored by the server whose `BRAID_REPLICA` is `b`.  A proxy may send requests
for it there (deploy/haproxy.cfg); any other server replies with a 404 that names it.
"""

from __future__ import annotations

import re

NAME = r"[A-Za-z0-9.-]{1,63}"
"""What a replica may be called: as a pod of Kubernetes, and never with the underscore that follows it."""
NAMED_ID = re.compile(rf"resp_({NAME})_[0-9a-f]{{32}}")


def with_replica(response_id: str, replica: str | None) -> str:
    """`resp_0123…` → `resp_b_0123…` for the replica `b`; unchanged without one."""
    return response_id if replica is None else response_id.replace("resp_", f"resp_{replica}_", 1)


def replica_of(response_id: str) -> str | None:
    """The replica that an id names; None for ids that name none, such as those that clients choose."""
    named = NAMED_ID.fullmatch(response_id)
    return named[1] if named else None
