"""POST moderations: whether texts and images are harmful, by a classifier or a guard model."""

from __future__ import annotations

import falcon
import falcon.asgi

from pipelines.base.errors import NotFound, RequestError
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_choice import CLASSIFICATION, TEXT, Ability
from pipelines.worker.pipeline import Pipeline
from server.apis.moderations.classifier import harms_of, moderate_by_labels
from server.apis.moderations.guard import guard_of, moderate_by_guard
from server.apis.moderations.replies import Moderation, result
from server.apis.moderations.request import ModerationRequest
from server.http.request_body import parse_body
from server.services.model_lookup import find_pipeline
from server.services.services import Services

MODERATING = Ability((*TEXT.tasks, *CLASSIFICATION.tasks), "moderate")


class ModerationsEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        request = await parse_body(exchange, ModerationRequest, raw)
        contents = request.contents()
        name = request.named_model or self._only_model(services.of(exchange).catalogue)
        pipeline = await find_pipeline(services, exchange, name, MODERATING)
        if not moderates(pipeline):
            raise NotFound(
                f"The model `{pipeline.name}` does not moderate: it is no guard model, and its labels are no "
                "categories of harm; see `moderation` of the label node",
                field="model",
            )
        judge = moderate_by_guard if guard_of(pipeline) else moderate_by_labels
        judgements = await judge(services, pipeline, exchange, contents, len(raw))
        reply = Moderation(
            id=f"modr-{exchange.client_id or exchange.request_id}",
            model=pipeline.name,
            results=[result(judgement) for judgement in judgements],
        )
        resp.content_type, resp.data = falcon.MEDIA_JSON, reply.to_json()

    def _only_model(self, catalogue: Catalogue) -> str | None:
        """The only model that moderates, for requests that name none, or one of OpenAI's.

        Raises RequestError where there are several.
        """
        cards = [
            card for card in catalogue.cards() if card.state == "ready" and card.task in MODERATING.tasks
        ]
        able = [card.name for card in cards if moderates(catalogue.get(card.name))]
        if not able:
            raise NotFound("There is no model that can moderate", field="model")
        default = self._services.settings.default_model
        if len(able) > 1 and default not in able:
            raise RequestError(f"`model` is required; models: {', '.join(able)}", field="model")
        return default if default in able else able[0]


def moderates(pipeline: Pipeline) -> bool:
    """Whether a model finds harmful texts."""
    return guard_of(pipeline) is not None or bool(harms_of(pipeline))
