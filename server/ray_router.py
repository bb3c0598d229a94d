"""The router of Braid's replicas under Ray Serve: a session stays at its replica while its engine runs.

Ray Serve loads it by its name in each process that routes.
"""

from __future__ import annotations

from typing import Any

from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from server.ray_ingress import REPLICA

READY = "engine_ready"
"""In a replica's routing stats: whether its engine runs and its models have loaded."""


class SessionRouter(ConsistentHashRouter):  # type: ignore[misc]  # ray is not installed where types are checked
    """Serve's consistent hash of the session, without replicas whose engine is down; a request that names a
    replica goes there, if it runs.
    """

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """Ranks of one replica each, in the order of the hash; all of them where no engine runs."""
        named = _named(pending_request)
        owners = [each for each in candidate_replicas if each.replica_id.unique_id == named]
        if owners:
            return [owners]
        ranks = await super().choose_replicas(candidate_replicas, pending_request)
        able = [rank for rank in ranks if all(each.routing_stats.get(READY, True) for each in rank)]
        return able or ranks


def _named(pending_request: Any) -> str | None:
    """The replica that a request names."""
    session = ("" if pending_request is None else pending_request.metadata.session_id) or ""
    return session.removeprefix(REPLICA) if session.startswith(REPLICA) else None
