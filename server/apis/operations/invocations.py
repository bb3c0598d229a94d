"""POST invocations: SageMaker's single path for every task, selected by the model's task and the body."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.worker.model_choice import NO_NAMES, READING, TEXT
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.pooling.classify_endpoint import ClassifyEndpoint
from server.apis.pooling.embeddings_endpoint import EmbeddingsEndpoint
from server.apis.pooling.pooling_endpoint import PoolingTasksEndpoint
from server.apis.pooling.rerank_endpoint import RerankEndpoint
from server.apis.pooling.score_endpoint import ScoreEndpoint
from server.http.exchange import Exchange
from server.http.request_body import JsonObject, parse_body
from server.services.model_lookup import find_pipeline
from server.services.services import Services

BY_TASK: dict[str, type[Any]] = {
    "embed": EmbeddingsEndpoint,
    "token_embed": PoolingTasksEndpoint,
    "token_classify": PoolingTasksEndpoint,
    "entities": PoolingTasksEndpoint,
    "classify": ClassifyEndpoint,
    "rerank": ClassifyEndpoint,
}
"""Task of an embedding or pooling model → endpoint for a body with inputs."""
BY_FIELD: dict[str, type[Any]] = {
    "query": RerankEndpoint,
    "queries": ScoreEndpoint,
    "text_1": ScoreEndpoint,
    "data_1": ScoreEndpoint,
}
"""Field → endpoint for a body with that field, which compares texts."""


class InvocationsEndpoint:
    """Forwards each body to the endpoint that it is meant for.

    With a generative model a body with `messages` is a chat, any other a completion.  With any other model
    a body with two kinds of texts is a score or a rerank, any other the endpoint of the model's task.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        makers: set[type[Any]] = {
            ChatCompletionsEndpoint,
            CompletionsEndpoint,
            *BY_TASK.values(),
            *BY_FIELD.values(),
        }
        self._endpoints: dict[type[Any], Any] = {make: make(services) for make in makers}

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        body = (await parse_body(exchange, JsonObject, raw)).root
        endpoint = self._endpoints[select_endpoint(body, await self._task(exchange, body.get("model")))]
        await endpoint.respond(raw, req, resp)

    async def _task(self, exchange: Exchange, model: Any) -> str | None:
        """The task of the model that a body names, else the common task of all models; None if several."""
        cards = self._services.of(exchange).catalogue.cards()
        if isinstance(model, str) and (model not in NO_NAMES or model in [card.name for card in cards]):
            return (await find_pipeline(self._services, exchange, model, READING)).task
        tasks = {card.task for card in cards}
        return tasks.pop() if len(tasks) == 1 else None


def select_endpoint(body: dict[str, Any], task: str | None) -> type[Any]:
    """The endpoint that a body is meant for; without a task the body alone decides."""
    if task not in TEXT.tasks:
        comparison = next((make for name, make in BY_FIELD.items() if name in body), None)
        if comparison is not None:
            return comparison
        if task in BY_TASK:
            return BY_TASK[task]
        if "input" in body:
            return EmbeddingsEndpoint
    return ChatCompletionsEndpoint if "messages" in body else CompletionsEndpoint
