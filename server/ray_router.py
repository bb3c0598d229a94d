"""The router of Braid's replicas under Ray Serve: a session stays at its replica while its engine runs.

Ray Serve loads it by its name in each process that routes.
"""

from __future__ import annotations

from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from server.ray_ingress import REPLICA, sent_before

READY = "engine_ready"
"""The key in a replica's routing stats that says whether its engine runs and its models have loaded."""


class SessionRouter(ConsistentHashRouter):  # type: ignore[misc]  # ray is not installed where types are checked
    """Serve's consistent hash of the session, without replicas whose engine is down; a request that names a
    replica goes there, if it runs, and one that is sent again goes to the next replica in the hash's order.
    """

    def _routing_key(self, pending_request: Any) -> Any:
        """What is hashed: also of a request that is sent again the key of its session."""
        key = super()._routing_key(pending_request)
        return key and sent_before(key)[1]

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """Ranks of one replica each, in the order of the hash; all of them where no engine runs."""
        named = _named(pending_request)
        owners = [replica for replica in candidate_replicas if replica.replica_id.unique_id == named]
        if owners:
            return [owners]
        ranks = await super().choose_replicas(candidate_replicas, pending_request)
        able = [rank for rank in ranks if all(replica.routing_stats.get(READY, True) for replica in rank)]
        able = able or ranks
        first = sent_before(_session(pending_request))[0] % max(1, len(able))
        return [*able[first:], *able[:first]]


def _session(pending_request: Any) -> str:
    """What server/ray_ingress.py found that a request belongs to."""
    return ("" if pending_request is None else pending_request.metadata.session_id) or ""


def _named(pending_request: Any) -> str | None:
    """The replica that a request names."""
    session = _session(pending_request)
    return session.removeprefix(REPLICA) if session.startswith(REPLICA) else None
