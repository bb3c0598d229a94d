"""GET models and models/{name}: the models and their adapters, whether they are loaded, and why not.

In Anthropic's shape for a request with its header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import falcon
import falcon.asgi

from pipelines.base.errors import Unavailable
from pipelines.wire.messages import how_far
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_table import ModelCard
from server.http.query_page import read_whole_number
from server.schema.anthropic_errors import ID_HEADER
from server.schema.anthropic_models import (
    VERSION_HEADER,
    AnthropicModels,
    anthropic_model,
    anthropic_models,
)
from server.schema.model_list import ModelCapabilities, ModelInfo, ModelInfoStatus, ModelList, Permission
from server.services.services import Services

FAILED_RETRY_S = 30
STATUS = {"ready": "loaded"}
"""llama.cpp's words for states, where they are not the same."""
CAPABILITIES = {
    "completion_chat": "chat",
    "classification": "classify",
    "audio_transcription": "transcribe",
    "audio_speech": "speak",
}
"""Mistral's word for what a model can do → the task of its graph."""


class ModelsEndpoint:
    """All models, in the order of names."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        models = [
            each
            for card in self._services.of(req.scope["braid.exchange"]).catalogue.cards()
            for each in (model(card), *adapters(card))
        ]
        resp.content_type = falcon.MEDIA_JSON
        if req.get_header(VERSION_HEADER):
            resp.set_header(ID_HEADER, req.scope["braid.exchange"].request_id)
        resp.data = _listed(models, req).model_dump_json().encode()


def _listed(models: list[ModelInfo], req: falcon.asgi.Request) -> ModelList | AnthropicModels:
    """The list in the shape that the client reads.  Raises RequestError."""
    if not req.get_header(VERSION_HEADER):
        return ModelList(data=models)
    after, before = map(req.get_param, ("after_id", "before_id"))
    return anthropic_models(models, read_whole_number(req, "limit"), after, before)


class ModelEndpoint:
    """One model; 503 with the reason while it is neither ready nor unloaded."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        named = (each for card in catalogue.cards() for each in adapters(card) if each.id == name)
        found = next(named, None) or model(known_card(catalogue, name, ("ready", "unloaded")))
        resp.content_type = falcon.MEDIA_JSON
        shown = anthropic_model(found) if req.get_header(VERSION_HEADER) else found
        if shown is not found:
            resp.set_header(ID_HEADER, req.scope["braid.exchange"].request_id)
        resp.data = shown.model_dump_json().encode()


def known_card(catalogue: Catalogue, name: str, states: Sequence[str] = ("ready",)) -> ModelCard:
    """The card of a model in one of `states`.  Raises NotFound, or Unavailable with the reason."""
    card = next((known for known in catalogue.cards() if known.name == name), None)
    if card is None:
        raise catalogue.unknown(name)
    if card.state in states:
        return card
    if card.state == "failed":
        problems = "; ".join(card.problems) or "it failed to load"
        raise Unavailable(f"The model `{name}` could not be loaded: {problems}", FAILED_RETRY_S)
    why = how_far(card.doing, card.share)
    raise Unavailable(f"The model `{name}` is {card.state}" + (f": {why}" if why else ""))


def adapters(card: ModelCard) -> Iterator[ModelInfo]:
    """The adapters of a model, as vLLM lists them: models of their own, with a parent."""
    for adapter in card.adapters:
        yield model(card).model_copy(
            update={
                "id": adapter.name,
                "created": adapter.created,
                "root": adapter.root,
                "parent": card.name,
                "permission": [Permission(id=f"modelperm-{adapter.name}", created=adapter.created)],
            }
        )


def model(card: ModelCard) -> ModelInfo:
    permission = Permission(id=f"modelperm-{card.name}", created=card.created)
    return ModelInfo(
        id=card.name,
        created=card.created,
        root=card.name,
        max_model_len=card.max_context,
        permission=[permission],
        status=ModelInfoStatus(
            value=STATUS.get(card.state, card.state), doing=card.doing or None, share=card.share
        ),
        capabilities=ModelCapabilities(**{name: card.task == task for name, task in CAPABILITIES.items()}),
    )
