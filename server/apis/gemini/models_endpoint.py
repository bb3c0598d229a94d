"""GET models and models/{name} in Gemini's shape: the models that generate."""

from __future__ import annotations

import falcon
import falcon.asgi

from pipelines.worker.model_table import ModelCard
from server.apis.gemini.reply_models import GeminiModel, GeminiModels
from server.apis.operations.models import known_card
from server.services.services import Services

METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
CHAT = "chat"


class GeminiModelsEndpoint:
    """All models that chat, in the order of names."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        cards = [card for card in catalogue.cards() if card.task == CHAT]
        resp.content_type = falcon.MEDIA_JSON
        resp.data = GeminiModels(models=[gemini_model(card) for card in cards]).to_json()


class GeminiModelEndpoint:
    """One model."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        card = known_card(catalogue, name, ("ready", "unloaded"))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = gemini_model(card).to_json()


def gemini_model(card: ModelCard) -> GeminiModel:
    context = card.max_context or 0
    return GeminiModel(
        name=f"models/{card.name}",
        base_model_id=card.name,
        version="1",
        display_name=card.name,
        input_token_limit=context,
        output_token_limit=context,
        supported_generation_methods=METHODS if card.task == CHAT else [],
    )
