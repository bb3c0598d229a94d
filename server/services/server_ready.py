"""Whether a server takes requests, and whether it serves all that it can."""

from __future__ import annotations

from server.process.heartbeats import are_silent
from server.services.services import Services


def listening(services: Services) -> bool:
    """Whether an engine host is connected, beats and accepts requests."""
    status = services.client.status
    return status is not None and status.state != "draining" and not are_silent(services.settings)


def is_ready(services: Services) -> bool:
    """Whether no model is loading any more, in a host that is connected, beats and is ready."""
    status = services.client.status
    if status is None or status.state != "ready" or are_silent(services.settings):
        return False
    return all(card.state != "loading" or card.on_request for card in services.catalogue.cards())
