"""GET models/{name}/profile: where the time of a model's steps goes, and the engine host's own."""

from __future__ import annotations

import math

import falcon
import falcon.asgi

from pipelines.errors import RequestError
from server.endpoints.models import ready_card
from server.http.error_text import quoted
from server.profile_reply import profile
from server.services import Services


class ModelProfile:
    """Totals since the model was loaded; what two of them differ by is what ran between them.

    Percentiles are of recent steps, with `seconds` in the query of those that ended in so many last seconds.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        card = ready_card(self._services.catalogue.cards(), name)
        told = await self._services.client.profile(card.name, seconds(req))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = profile(card.name, told).model_dump_json().encode()


def seconds(req: falcon.asgi.Request) -> float:
    """The query's `seconds`; infinity without.  Raises RequestError."""
    text = req.get_param("seconds")
    try:
        value = math.inf if text is None else float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise RequestError(f"`seconds` must be a number greater than 0, got {quoted(text)}", field="seconds")
    return value
