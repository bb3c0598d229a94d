"""The paths of embeddings, classes, scores and rankings, and those of Cohere."""

from __future__ import annotations

from server.apis.pooling.classify_endpoint import ClassifyEndpoint
from server.apis.pooling.cohere_dialect import COHERE
from server.apis.pooling.cohere_endpoint import CohereEmbedEndpoint, CohereEmbedV1Endpoint
from server.apis.pooling.embeddings_endpoint import EmbeddingsEndpoint
from server.apis.pooling.gliner_endpoint import GlinerEndpoint
from server.apis.pooling.pooling_endpoint import PoolingTasksEndpoint
from server.apis.pooling.rerank_endpoint import RerankEndpoint
from server.apis.pooling.score_endpoint import ScoreEndpoint
from server.services.api import Api

EVERYWHERE = {
    "/pooling": PoolingTasksEndpoint,
    "/classify": ClassifyEndpoint,
    "/score": ScoreEndpoint,
    "/rerank": RerankEndpoint,
}
POOLING = Api(
    "pooling",
    root={**EVERYWHERE, "/v2/rerank": RerankEndpoint, "/gliner": GlinerEndpoint},
    prefixed={"/embeddings": EmbeddingsEndpoint, **EVERYWHERE},
    dialect=COHERE,
    speaks=r"/v[12]/rerank",
)
COHERE_EMBED = Api(
    "cohere",
    root={"/v1/embed": CohereEmbedV1Endpoint, "/v2/embed": CohereEmbedEndpoint},
    dialect=COHERE,
    speaks=r"/v[12]/embed",
)
