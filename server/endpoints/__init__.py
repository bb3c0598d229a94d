"""The table of endpoints.  Each stands in a file of its own here, and in one line below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from server.endpoints.chat import ChatCompletions
from server.endpoints.completions import Completions
from server.endpoints.health import Health, Live, Ready
from server.endpoints.metrics import Metrics
from server.endpoints.models import ModelCards, OneModel
from server.endpoints.version import Version
from server.services import Services

PREFIXES = ("/v1", "/v3", "/v3/v1")
"""OpenAI's, OpenVINO Model Server's, and that server's older one."""

ROUTES: dict[str, Callable[[Services], Any]] = {
    "/chat/completions": ChatCompletions,
    "/completions": Completions,
    "/models": ModelCards,
    "/models/{name:path}": OneModel,
}
"""Under every prefix."""

ROOT_ROUTES: dict[str, Callable[[Services], Any]] = {
    "/health": Health,
    "/v2/health/live": Live,
    "/v2/health/ready": Ready,
    "/version": Version,
    "/metrics": Metrics,
}
"""Without a prefix."""


def routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path template, resource) of every endpoint; the prefixes share one resource."""
    for path, make in ROOT_ROUTES.items():
        yield path, make(services)
    for path, make in ROUTES.items():
        resource = make(services)
        for prefix in PREFIXES:
            yield prefix + path, resource
