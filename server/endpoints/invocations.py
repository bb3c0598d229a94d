"""POST invocations: SageMaker's one path for every task; the model's task and the body tell which."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from server.endpoints.chat import ChatCompletions
from server.endpoints.classify import Classify
from server.endpoints.completions import Completions
from server.endpoints.embeddings import Embeddings
from server.endpoints.pooling import Pooling
from server.endpoints.rerank import Rerank
from server.endpoints.score import Score
from server.http.request_body import JsonObject, parse_body, read_body
from server.model_lookup import NO_NAMES, READING, TEXT, find_pipeline
from server.services import Services

READERS: dict[str, type[Any]] = {
    "embed": Embeddings,
    "token_embed": Pooling,
    "classify": Classify,
    "rerank": Classify,
}
"""Task of a model that generates no text → what reads its inputs."""
COMPARING: dict[str, type[Any]] = {"query": Rerank, "queries": Score, "text_1": Score, "data_1": Score}
"""Field → what compares the texts of such a body."""


class Invocations:
    """With a model that generates text a body with `messages` is a chat, any other a completion.

    With any other model a body that has two sides is a score or a rerank, else what suits the model.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        makers: set[type[Any]] = {ChatCompletions, Completions, *READERS.values(), *COMPARING.values()}
        self._endpoints: dict[type[Any], Any] = {make: make(services) for make in makers}

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        exchange.at_end(services.admission.enter())
        raw = await read_body(req, services.settings.max_body_mb << 20)
        body = (await parse_body(JsonObject, raw)).root
        endpoint = self._endpoints[meant(body, self._task(body.get("model")))]
        await endpoint.answer(raw, req, resp)

    def _task(self, model: Any) -> str | None:
        """The task of the model that a body names, or of all there are; None when they differ."""
        cards = self._services.catalogue.cards()
        if isinstance(model, str) and (model not in NO_NAMES or model in [card.name for card in cards]):
            return find_pipeline(self._services, model, READING).task
        tasks = {card.task for card in cards}
        return tasks.pop() if len(tasks) == 1 else None


def meant(body: dict[str, Any], task: str | None) -> type[Any]:
    """The endpoint that a body is for; of a model of unknown task the body alone tells it."""
    if task not in TEXT.tasks:
        compares = next((make for name, make in COMPARING.items() if name in body), None)
        if compares is not None:
            return compares
        if task in READERS:
            return READERS[task]
        if "input" in body:
            return Embeddings
    return ChatCompletions if "messages" in body else Completions
