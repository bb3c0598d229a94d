"""The table of endpoints: each has a file of its own in this folder, and one line below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from server.endpoints.batch import BatchChat
from server.endpoints.chat import ChatCompletions
from server.endpoints.classify import ClassifyEndpoint
from server.endpoints.cohere_embed import CohereEmbedEndpoint, CohereEmbedV1Endpoint
from server.endpoints.completions import Completions
from server.endpoints.documentation import Docs, OpenAPI
from server.endpoints.embeddings import EmbeddingsEndpoint
from server.endpoints.health import Health, Live, Ping, Ready
from server.endpoints.invocations import InvocationsEndpoint
from server.endpoints.load import Load
from server.endpoints.messages import CountTokens, Messages
from server.endpoints.metrics import Metrics
from server.endpoints.models import ModelCards, OneModel
from server.endpoints.paths import PREFIXES, merge_suffixes
from server.endpoints.pooling import PoolingTasksEndpoint
from server.endpoints.profile import ModelProfile
from server.endpoints.rerank import RerankEndpoint
from server.endpoints.responses import CountInputTokensEndpoint, ResponsesEndpoint
from server.endpoints.score import ScoreEndpoint
from server.endpoints.stored_responses import (
    CancelResponseEndpoint,
    InputItemsEndpoint,
    StoredResponseEndpoint,
)
from server.endpoints.tokenizer import DetokenizeEndpoint, TokenizeEndpoint, TokenizerInfoEndpoint
from server.endpoints.version import Version
from server.services import Services

ROUTES: dict[str, Callable[[Services], Any]] = {
    "/chat/completions": ChatCompletions,
    "/chat/completions/batch": BatchChat,
    "/completions": Completions,
    "/responses": ResponsesEndpoint,
    "/responses/input_tokens": CountInputTokensEndpoint,
    "/responses/{response_id}": StoredResponseEndpoint,
    "/responses/{response_id}/cancel": CancelResponseEndpoint,
    "/responses/{response_id}/input_items": InputItemsEndpoint,
    "/messages": Messages,
    "/messages/count_tokens": CountTokens,
    "/embeddings": EmbeddingsEndpoint,
    "/pooling": PoolingTasksEndpoint,
    "/classify": ClassifyEndpoint,
    "/score": ScoreEndpoint,
    "/rerank": RerankEndpoint,
    "/tokenize": TokenizeEndpoint,
    "/detokenize": DetokenizeEndpoint,
    "/tokenizer_info": TokenizerInfoEndpoint,
    "/models": ModelCards,
    "/models/{name:path}": OneModel,
    "/models/{name:path}/profile": ModelProfile,
}
"""Under every prefix."""

ROOT_ROUTES: dict[str, Callable[[Services], Any]] = {
    "/tokenize": TokenizeEndpoint,
    "/detokenize": DetokenizeEndpoint,
    "/tokenizer_info": TokenizerInfoEndpoint,
    "/pooling": PoolingTasksEndpoint,
    "/classify": ClassifyEndpoint,
    "/score": ScoreEndpoint,
    "/rerank": RerankEndpoint,
    "/v2/rerank": RerankEndpoint,
    "/v1/embed": CohereEmbedV1Endpoint,
    "/v2/embed": CohereEmbedEndpoint,
    "/invocations": InvocationsEndpoint,
    "/health": Health,
    "/ping": Ping,
    "/load": Load,
    "/v2/health/live": Live,
    "/v2/health/ready": Ready,
    "/version": Version,
    "/metrics": Metrics,
    "/openapi.json": OpenAPI,
    "/docs": Docs,
}
"""Without a prefix."""


def routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path template, resource) of every endpoint; the prefixes share one resource."""
    for path, make in ROOT_ROUTES.items():
        yield path, make(services)
    for path, resource in merge_suffixes((path, make(services)) for path, make in ROUTES.items()):
        for prefix in PREFIXES:
            yield prefix + path, resource
