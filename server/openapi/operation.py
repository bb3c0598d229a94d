"""What the OpenAPI document says of one method of a path, and the bodies and queries that several have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from pipelines.requests.fields import known_fields as generation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.requests.pooling.cohere import CohereEmbedRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.requests.pooling.entities import EntityRequest
from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.requests.pooling.scoring import ScoreRequest
from pipelines.requests.retrieval.search import SearchRequest
from pipelines.requests.speech.request import TranscriptionRequest, TranslationRequest
from server.apis.batches.files.upload import UploadRequest
from server.apis.decisions.openai_request import DecisionRequest
from server.apis.decisions.scoring_request import GenerativeScoringRequest
from server.apis.decisions.systemone_request import SystemOneRequest
from server.apis.generation.requests.batch import BatchRequest
from server.apis.kserve.generate_body import GenerateRequest
from server.apis.kserve.messages import (
    InferRequest,
)
from server.apis.messages import unsupported_fields as messages
from server.apis.messages.request import CountRequest, MessagesRequest
from server.apis.moderations.request import ModerationRequest
from server.apis.operations.loading import IndexRequest, ModelName, NamedLoad
from server.apis.operations.lora_adapters import LoadLoraRequest, UnloadLoraRequest
from server.apis.responses import unsupported_fields as responses
from server.apis.responses.request import CompactRequest, CountInputTokensRequest, ResponseRequest
from server.apis.scale_out.render_request import RenderChatRequest, RenderCompletionRequest
from server.apis.scale_out.tokens_request import AbortRequest, TokensRequest
from server.apis.tei.requests import (
    DecodeRequest,
    EmbedRequest,
    LabelRequest,
    RankRequest,
    SimilarityRequest,
)
from server.apis.tokenizing import unsupported_fields as tokenizing
from server.apis.tokenizing.request import (
    TokenizeChat,
    TokenizeContent,
    TokenizeInputs,
    TokenizePrompt,
    TokenizeTexts,
)
from server.apis.voice.request import SpeakRequest
from server.openapi.schemas import BodySchema, Model, Schema

SOUND = "audio/*"
TEXT, HTML = "text/plain", "text/html"
JSON, JSONL, FORM = "application/json", "application/jsonl", "multipart/form-data"

GUARDED = (401, 500)
GETS = (*GUARDED, 404, 503)
POSTS = (*GUARDED, 400, 404, 408, 413, 429, 503)
TEI_POSTS = (*POSTS, 422, 424)
ERRORS = (400, 401, 404, 408, 412, 413, 422, 424, 426, 429, 500, 503)
"""Every HTTP status of an error."""


@dataclass(frozen=True)
class Operation:
    """One method of one path.

    `reply` holds the possible reply models, or is a media type; `event` is the data of a stream's events.
    """

    summary: str
    tag: str
    bodies: tuple[BodySchema, ...] = ()
    reply: tuple[Model, ...] | str = ""
    event: type[BaseModel] | None = None
    streams: bool = False
    query: Mapping[str, Schema] = field(default_factory=dict)
    body_type: str = JSON
    errors: tuple[int, ...] = POSTS


MODEL_NAME = BodySchema(ModelName)
NAMED_LOAD = BodySchema(NamedLoad)
LOAD_LORA = BodySchema(LoadLoraRequest)
UNLOAD_LORA = BodySchema(UnloadLoraRequest)
INDEX = BodySchema(IndexRequest)
CHAT = BodySchema(ChatRequest, generation.IGNORED, ChatRequest.refused)
BATCH = BodySchema(BatchRequest, generation.IGNORED, BatchRequest.refused)
COMPLETION = BodySchema(CompletionRequest, generation.IGNORED, CompletionRequest.refused)
RESPONSE = BodySchema(ResponseRequest, responses.IGNORED, responses.REFUSED, responses.PASSED, ChatRequest)
INPUT = BodySchema(
    CountInputTokensRequest, responses.IGNORED, responses.REFUSED, responses.PASSED, ChatRequest
)
COMPACT = BodySchema(CompactRequest, responses.IGNORED, responses.REFUSED, responses.PASSED, ChatRequest)
MESSAGES = BodySchema(MessagesRequest, messages.IGNORED, messages.REFUSED)
COUNT = BodySchema(CountRequest, messages.IGNORED, messages.REFUSED)
TOKENIZE = (
    BodySchema(TokenizePrompt),
    BodySchema(TokenizeChat, tokenizing.IGNORED_CHAT, tokenizing.REFUSED_CHAT),
    BodySchema(TokenizeTexts),
    BodySchema(TokenizeContent),
    BodySchema(TokenizeInputs),
)


SPEECH = BodySchema(SpeakRequest, SpeakRequest.ignored, SpeakRequest.refused)
TRANSCRIPTION, TRANSLATION = (
    BodySchema(model, model.ignored, model.refused) for model in (TranscriptionRequest, TranslationRequest)
)


def _pooling(model: type[BasePoolingRequest]) -> BodySchema:
    return BodySchema(model, model.ignored, model.refused)


EMBEDDING = _pooling(EmbeddingRequest)
POOLING = _pooling(PoolingRequest)
ENTITIES = _pooling(EntityRequest)
CLASSIFICATION = _pooling(ClassificationRequest)
SCORE = _pooling(ScoreRequest)
RERANK = _pooling(RerankRequest)
UPLOAD = BodySchema(UploadRequest)
DECISION = BodySchema(DecisionRequest, DecisionRequest.ignored)
SYSTEM_ONE = BodySchema(SystemOneRequest, SystemOneRequest.ignored)
MODERATION = BodySchema(ModerationRequest, ModerationRequest.ignored)
SEARCH = BodySchema(SearchRequest, SearchRequest.ignored)
RENDER_CHAT = BodySchema(RenderChatRequest, generation.IGNORED, RenderChatRequest.refused)
RENDER_COMPLETION = BodySchema(RenderCompletionRequest, generation.IGNORED, RenderCompletionRequest.refused)
TOKENS_IN = BodySchema(TokensRequest, TokensRequest.ignored, TokensRequest.refused)
ABORT = BodySchema(AbortRequest)
SCORING = BodySchema(GenerativeScoringRequest)
TEI_EMBED, TEI_PREDICT, TEI_SIMILARITY, TEI_RANK = (
    BodySchema(body) for body in (EmbedRequest, LabelRequest, SimilarityRequest, RankRequest)
)
TEI_DECODE = BodySchema(DecodeRequest)
INFER = BodySchema(InferRequest)
GENERATE_BODY = BodySchema(GenerateRequest)
COHERE_EMBED = _pooling(CohereEmbedRequest)
MODEL: dict[str, Schema] = {"model": {"type": "string"}}
RECENT: dict[str, Schema] = {"seconds": {"type": "number", "exclusiveMinimum": 0}}
LEVEL: dict[str, Schema] = {"level": {"type": "integer", "minimum": 0, "maximum": 2}}
USAGE: dict[str, Schema] = {
    **{name: {"type": "integer", "minimum": 0} for name in ("start_time", "end_time", "limit")},
    "bucket_width": {"type": "string", "enum": ["1d"]},
    "page": {"type": "string"},
    "group_by": {"type": "array", "items": {"type": "string", "enum": ["model", "api_key_id"]}},
    **{name: {"type": "array", "items": {"type": "string"}} for name in ("models", "api_key_ids")},
}
WATCH: dict[str, Schema] = {**MODEL, "stream": {"type": "boolean"}}
EVENTS: dict[str, Schema] = {
    "stream": {"type": "boolean"},
    "starting_after": {"type": "integer", "minimum": 0},
}
PAGE: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "order": {"enum": ["asc", "desc"]},
    "after": {"type": "string"},
}

BATCH_PAGE = {name: PAGE[name] for name in ("limit", "after")}
FILE_PAGE: dict[str, Schema] = {
    **PAGE,
    "limit": {"type": "integer", "minimum": 1, "maximum": 10000},
    "purpose": {"enum": ["batch", "assistants", "user_data", "batch_output"]},
}
