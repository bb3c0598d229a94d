"""What requests that lines of composed graphs make have of the client's own request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipelines.values.tasks import GenerationInput, PoolingInput


def carried(request: Any, outer: Any) -> Any:
    """The request of a line with the salt of the outer one, so that no other client finds its prompts in the
    prefix cache, and with its priority.  It is not spoken: only the graph's own last line does that.
    """
    priority = priority_of(outer)
    if isinstance(request, GenerationInput):
        salt = getattr(outer, "cache_salt", "")
        has_all = (not salt or request.cache_salt) and (not priority or "priority" in request.sampling)
        if has_all and request.spoken is None:
            return request
        sampling = {"priority": priority} if priority else {}
        return replace(
            request,
            cache_salt=request.cache_salt or salt,
            sampling={**sampling, **request.sampling},
            spoken=None,
        )
    if isinstance(request, PoolingInput) and priority:
        return replace(request, priority=request.priority or priority)
    return request


def priority_of(request: Any) -> int:
    """The smaller, the sooner."""
    if isinstance(request, GenerationInput):
        return int(request.sampling.get("priority") or 0)
    return request.priority if isinstance(request, PoolingInput) else 0
