"""GET models/{name}/profile: the time of nodes in workers, of the phases of steps, and of the engine host."""

from __future__ import annotations

import asyncio
import math

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.telemetry import deferred
from server.apis.operations.models import known_card
from server.base.metric_values import MetricValues, NodeRuns
from server.services.model_times import model_times
from server.services.services import Services


class ModelProfileEndpoint:
    """Totals since the model was loaded, and percentiles of recent steps.

    With `seconds` in the query the percentiles are of the steps that ended in the last `seconds` seconds.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        card = known_card(self._services.of(req.scope["braid.exchange"]).catalogue, name)
        profiled = await self._services.client.profile(card.name, seconds(req))
        deferred.catch_up()
        ran = (await asyncio.to_thread(MetricValues)).node_runs(card.name)
        graph = self._services.catalogue.built(card.name).graph
        worker = {line.name: ran.get(line.name, NodeRuns(0, 0.0)) for line in graph.bindings}
        resp.content_type = falcon.MEDIA_JSON
        resp.data = model_times(card.name, profiled, worker).model_dump_json().encode()


def seconds(req: falcon.asgi.Request) -> float:
    """`seconds` of the query, infinity without it.  Raises RequestError."""
    text = req.get_param("seconds")
    try:
        value = math.inf if text is None else float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise RequestError(f"`seconds` must be a number greater than 0, got {quoted(text)}", field="seconds")
    return value
