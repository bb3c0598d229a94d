"""The table of endpoints: each has a file of its own in the folders beside it, and one line below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from server.apis.batches.batch_models import ENDPOINTS as BATCH_PATHS
from server.apis.batches.endpoint import BatchEndpoint, BatchesEndpoint, CancelBatchEndpoint
from server.apis.batches.files_endpoint import FileContentEndpoint, FileEndpoint, FilesEndpoint
from server.apis.generation.cancel_endpoint import CancelRequestEndpoint
from server.apis.generation.chat_batch_endpoint import BatchChatEndpoint
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.kserve.endpoint import (
    InferEndpoint,
    ModelConfigEndpoint,
    ModelMetadataEndpoint,
    ModelNamesEndpoint,
    ModelReadyEndpoint,
    ModelStatsEndpoint,
    ServerMetadataEndpoint,
)
from server.apis.kserve.generate_endpoint import GenerateEndpoint, GenerateStreamEndpoint
from server.apis.kserve.predict_endpoint import PredictEndpoint, SignatureEndpoint, VersionStatusEndpoint
from server.apis.messages.endpoint import CountTokensEndpoint, MessagesEndpoint
from server.apis.operations.graph import ModelGraphEndpoint
from server.apis.operations.health import HealthEndpoint, LiveEndpoint, PingEndpoint, ReadyEndpoint
from server.apis.operations.invocations import InvocationsEndpoint
from server.apis.operations.load import LoadEndpoint
from server.apis.operations.loading import (
    ConfigStatusEndpoint,
    LoadModelEndpoint,
    ReloadConfigEndpoint,
    RepositoryIndexEndpoint,
    RepositoryModelEndpoint,
    UnloadModelEndpoint,
)
from server.apis.operations.lora_adapters import LoadLoraEndpoint, UnloadLoraEndpoint
from server.apis.operations.metrics import MetricsEndpoint
from server.apis.operations.models import ModelEndpoint, ModelsEndpoint
from server.apis.operations.prefix_cache import ResetPrefixCacheEndpoint
from server.apis.operations.profile import ModelProfileEndpoint
from server.apis.operations.status import StatusEndpoint
from server.apis.operations.status_page import FrontEndpoint, StatusPageEndpoint
from server.apis.operations.version import VersionEndpoint
from server.apis.pooling.classify_endpoint import ClassifyEndpoint
from server.apis.pooling.cohere_endpoint import CohereEmbedEndpoint, CohereEmbedV1Endpoint
from server.apis.pooling.embeddings_endpoint import EmbeddingsEndpoint
from server.apis.pooling.pooling_endpoint import PoolingTasksEndpoint
from server.apis.pooling.rerank_endpoint import RerankEndpoint
from server.apis.pooling.score_endpoint import ScoreEndpoint
from server.apis.realtime.endpoint import RealtimeEndpoint
from server.apis.responses.endpoint import CountInputTokensEndpoint, ResponsesEndpoint
from server.apis.responses.stored_endpoint import (
    CancelResponseEndpoint,
    InputItemsEndpoint,
    StoredResponseEndpoint,
)
from server.apis.speech.endpoint import TranscriptionsEndpoint, TranslationsEndpoint
from server.apis.tokenizing.endpoint import DetokenizeEndpoint, TokenizeEndpoint, TokenizerInfoEndpoint
from server.apis.voice.endpoint import SpeechEndpoint
from server.openapi.endpoint import DocsEndpoint, OpenAPIEndpoint
from server.services.paths import PREFIXES, merge_suffixes
from server.services.services import Services

ROUTES: dict[str, Callable[[Services], Any]] = {
    "/chat/completions": ChatCompletionsEndpoint,
    "/chat/completions/batch": BatchChatEndpoint,
    "/completions": CompletionsEndpoint,
    "/responses": ResponsesEndpoint,
    "/responses/input_tokens": CountInputTokensEndpoint,
    "/responses/{response_id}": StoredResponseEndpoint,
    "/responses/{response_id}/cancel": CancelResponseEndpoint,
    "/responses/{response_id}/input_items": InputItemsEndpoint,
    "/messages": MessagesEndpoint,
    "/messages/count_tokens": CountTokensEndpoint,
    "/files": FilesEndpoint,
    "/files/{file_id}": FileEndpoint,
    "/files/{file_id}/content": FileContentEndpoint,
    "/batches": BatchesEndpoint,
    "/batches/{batch_id}": BatchEndpoint,
    "/batches/{batch_id}/cancel": CancelBatchEndpoint,
    "/embeddings": EmbeddingsEndpoint,
    "/pooling": PoolingTasksEndpoint,
    "/classify": ClassifyEndpoint,
    "/score": ScoreEndpoint,
    "/rerank": RerankEndpoint,
    "/audio/speech": SpeechEndpoint,
    "/audio/transcriptions": TranscriptionsEndpoint,
    "/audio/translations": TranslationsEndpoint,
    "/tokenize": TokenizeEndpoint,
    "/detokenize": DetokenizeEndpoint,
    "/tokenizer_info": TokenizerInfoEndpoint,
    "/models": ModelsEndpoint,
    "/models/{name:path}": ModelEndpoint,
    "/models/{name:path}/profile": ModelProfileEndpoint,
    "/models/{name:path}/graph": ModelGraphEndpoint,
    "/status": StatusEndpoint,
    "/requests/{request_id}/cancel": CancelRequestEndpoint,
    "/load_lora_adapter": LoadLoraEndpoint,
    "/unload_lora_adapter": UnloadLoraEndpoint,
}
"""Under every prefix."""

SOCKET_ROUTES: dict[str, Callable[[Services], Any]] = {"/realtime": RealtimeEndpoint}
"""WebSockets, under every prefix; OpenAPI cannot describe them."""

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
    "/reset_prefix_cache": ResetPrefixCacheEndpoint,
    "/models": ModelsEndpoint,
    "/models/load": LoadModelEndpoint,
    "/models/unload": UnloadModelEndpoint,
    "/v2/repository/index": RepositoryIndexEndpoint,
    "/v2/repository/models/{name:path}": RepositoryModelEndpoint,
    "/v1/config": ConfigStatusEndpoint,
    "/v1/config/reload": ReloadConfigEndpoint,
    "/health": HealthEndpoint,
    "/ping": PingEndpoint,
    "/load": LoadEndpoint,
    "/v1/models/{name:path}/versions/{version}": VersionStatusEndpoint,
    "/v1/models/{name:path}/metadata": SignatureEndpoint,
    "/v1/models/{name:path}/versions/{version}/metadata": SignatureEndpoint,
    "/v1/models/{name:path}:predict": PredictEndpoint,
    "/v1/models/{name:path}/versions/{version}:predict": PredictEndpoint,
    "/v2": ServerMetadataEndpoint,
    "/v2/models": ModelNamesEndpoint,
    "/v2/models/{name:path}": ModelMetadataEndpoint,
    "/v2/models/{name:path}/ready": ModelReadyEndpoint,
    "/v2/models/{name:path}/config": ModelConfigEndpoint,
    "/v2/models/{name:path}/stats": ModelStatsEndpoint,
    "/v2/models/{name:path}/infer": InferEndpoint,
    "/v2/models/{name:path}/generate": GenerateEndpoint,
    "/v2/models/{name:path}/generate_stream": GenerateStreamEndpoint,
    "/v2/models/{name:path}/versions/{version}/generate": GenerateEndpoint,
    "/v2/models/{name:path}/versions/{version}/generate_stream": GenerateStreamEndpoint,
    "/v2/models/{name:path}/versions/{version}": ModelMetadataEndpoint,
    "/v2/models/{name:path}/versions/{version}/ready": ModelReadyEndpoint,
    "/v2/models/{name:path}/versions/{version}/config": ModelConfigEndpoint,
    "/v2/models/{name:path}/versions/{version}/stats": ModelStatsEndpoint,
    "/v2/models/{name:path}/versions/{version}/infer": InferEndpoint,
    "/v2/health/live": LiveEndpoint,
    "/v2/health/ready": ReadyEndpoint,
    "/version": VersionEndpoint,
    "/metrics": MetricsEndpoint,
    "/openapi.json": OpenAPIEndpoint,
    "/docs": DocsEndpoint,
    "/": FrontEndpoint,
    "/status": StatusPageEndpoint,
    "/status/{file}": StatusPageEndpoint,
}
"""Without a prefix."""

OF_STATUS = (*(FrontEndpoint, StatusPageEndpoint, StatusEndpoint, ModelGraphEndpoint, CancelRequestEndpoint),)
"""What BRAID_STATUS turns off."""


def routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path template, resource) of every endpoint; the prefixes share one resource."""
    left_out = () if services.settings.status else OF_STATUS
    prefixed = (ROUTES | SOCKET_ROUTES).items()
    everywhere = [(path, make(services)) for path, make in prefixed if make not in left_out]
    made = [(path, make(services)) for path, make in ROOT_ROUTES.items() if make not in left_out]
    made += [(prefix + path, resource) for prefix in PREFIXES for path, resource in everywhere]
    return merge_suffixes(made)


def meant_path(path: str) -> str | None:
    """The path of the endpoint that `path` ends with: the base URL of a client has no prefix, or too much."""
    prefix = next((each for each in reversed(PREFIXES) if path.startswith(f"{each}/")), PREFIXES[0])
    ends = [end for end, make in ROUTES.items() if path.endswith(end) and make not in OF_STATUS]
    meant = prefix + max(ends, key=len, default="")
    return meant if meant not in (prefix, path) else None


def batch_routes(services: Services) -> Iterator[tuple[str, Any]]:
    """(path, resource) of the endpoints that requests of batches may name."""
    for path in BATCH_PATHS:
        yield path, ROUTES[path.removeprefix(PREFIXES[0])](services)
