"""GET models/{name}/graph: a model's graph, with those of the models that its lines ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import falcon
import falcon.asgi

from graphs.outline import NodeOutline, outline
from pipelines.base.errors import BraidError
from pipelines.worker.catalogue import Catalogue
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


class UnfoldedGraph(ModelGraph):
    """A graph with those of the models that its lines ask, and of the models that these ask, each once.

    A model that is not loaded, or that the client's key may not use, is a name in `nodes` alone.
    """

    inner: list[ModelGraph]


class ModelGraphEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        card = known_card(catalogue, name)
        own = _graph(catalogue, card.name)
        shown = UnfoldedGraph(**dict(own), inner=list(_inner(catalogue, own, {card.name})))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = shown.model_dump_json().encode()


def _inner(catalogue: Catalogue, graph: ModelGraph, known: set[str]) -> Iterator[ModelGraph]:
    """The graphs that a graph names and that are not `known` yet, each before those that it names."""
    for name in dict.fromkeys(name for node in graph.nodes for name in node.graphs):
        if name in known:
            continue
        known.add(name)
        try:
            named = _graph(catalogue, name)
        except BraidError:  # another key's, or not loaded
            continue
        yield named
        yield from _inner(catalogue, named, known)


def _graph(catalogue: Catalogue, name: str) -> ModelGraph:
    built = catalogue.built(name)
    return ModelGraph(model=name, source=built.text, **dict(outline(built.graph)))
