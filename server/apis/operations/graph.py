"""GET models/{name}/graph: the graph that a model is served by, node by node, and its source."""

from __future__ import annotations

from typing import Literal

import falcon
import falcon.asgi

from graphs.outline import NodeOutline, outline
from server.apis.operations.models import known_card
from server.schema.reply_models import Reply
from server.services.services import Services


class ModelGraph(Reply):
    """A graph as it runs: nodes in the order of the file, their `line` in `source`."""

    object: Literal["graph"] = "graph"
    model: str
    task: str
    description: str
    request: str
    reply: str
    source: str
    nodes: list[NodeOutline]


class ModelGraphEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        card = known_card(catalogue, name)
        built = catalogue.built(card.name)
        shown = ModelGraph(model=card.name, source=built.text, **dict(outline(built.graph)))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = shown.model_dump_json().encode()
