"""The table behind the OpenAPI document: bodies, replies and errors of every path.

One entry for each method of each route in `server/apis`; a test compares the two.
"""

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
from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.requests.pooling.scoring import ScoreRequest
from pipelines.requests.speech.request import TranscriptionRequest, TranslationRequest
from server.apis.batches.batch_models import Batch, BatchList, CreateBatch
from server.apis.batches.files.file_models import DeletedFile, FileList, FileObject
from server.apis.batches.files.upload import UploadRequest
from server.apis.generation.cancel_endpoint import CancelledRequest
from server.apis.generation.requests.batch import BatchRequest
from server.apis.kserve.generate_body import GenerateRequest
from server.apis.kserve.messages import (
    InferReply,
    InferRequest,
    ModelMetadata,
    ModelNames,
    ModelReadiness,
    ServerMetadata,
)
from server.apis.kserve.predict import PredictRequest
from server.apis.messages import unsupported_fields as messages
from server.apis.messages.reply_models import MessageReply, TokenCount
from server.apis.messages.request import CountRequest, MessagesRequest
from server.apis.operations.graph import ModelGraph
from server.apis.operations.health import Liveness, Readiness
from server.apis.operations.load import ServerLoad
from server.apis.operations.loading import IndexRequest, ModelName, NamedLoad
from server.apis.operations.lora_adapters import LoadLoraRequest, UnloadLoraRequest
from server.apis.operations.version import ServerVersion
from server.apis.pooling.replies.cohere import EmbedByTypeReply, EmbedFloatsReply
from server.apis.pooling.replies.ranking import OvmsRanking, Ranking, ScoreList
from server.apis.pooling.replies.reply_models import ClassificationList, EmbeddingList, PoolingList
from server.apis.responses import unsupported_fields as responses
from server.apis.responses.reply_models import DeletedResponse, InputItemList, InputTokenCount, Response
from server.apis.responses.request import CountInputTokensRequest, ResponseRequest
from server.apis.speech.events import SpeechEvent
from server.apis.speech.replies import SegmentedReply, TranscriptionReply, TranslationReply, VerboseReply
from server.apis.tokenizing import unsupported_fields as tokenizing
from server.apis.tokenizing.reply import Detokenized, Tokenized, TokenizedTexts, TokenizerDescription
from server.apis.tokenizing.request import DetokenizeRequest, TokenizeChat, TokenizePrompt, TokenizeTexts
from server.apis.voice.events import SpokenEvent
from server.apis.voice.request import SpeakRequest
from server.openapi.schemas import BodySchema, Model, Schema
from server.schema.reply_models import ChatChunk, ChatCompletion, Completion, ModelInfo, ModelList, Success
from server.services.model_times import ModelTimes
from server.status.reply_models import StatusReply

SOUND = "audio/*"
TEXT, HTML = "text/plain", "text/html"
JSON, JSONL, FORM = "application/json", "application/jsonl", "multipart/form-data"

GUARDED = (401, 500)
GETS = (*GUARDED, 404, 503)
POSTS = (*GUARDED, 400, 404, 408, 413, 429, 503)
ERRORS = (400, 401, 404, 408, 412, 413, 429, 500, 503)
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
MESSAGES = BodySchema(MessagesRequest, messages.IGNORED, messages.REFUSED)
COUNT = BodySchema(CountRequest, messages.IGNORED, messages.REFUSED)
TOKENIZE = (
    BodySchema(TokenizePrompt),
    BodySchema(TokenizeChat, tokenizing.IGNORED_CHAT, tokenizing.REFUSED_CHAT),
    BodySchema(TokenizeTexts),
)


SPEECH = BodySchema(SpeakRequest, SpeakRequest.ignored, SpeakRequest.refused)
TRANSCRIPTION, TRANSLATION = (
    BodySchema(model, model.ignored, model.refused) for model in (TranscriptionRequest, TranslationRequest)
)


def _pooling(model: type[BasePoolingRequest]) -> BodySchema:
    return BodySchema(model, model.ignored, model.refused)


EMBEDDING = _pooling(EmbeddingRequest)
POOLING = _pooling(PoolingRequest)
CLASSIFICATION = _pooling(ClassificationRequest)
SCORE = _pooling(ScoreRequest)
RERANK = _pooling(RerankRequest)
UPLOAD = BodySchema(UploadRequest)
INFER = BodySchema(InferRequest)
GENERATE_BODY = BodySchema(GenerateRequest)
COHERE_EMBED = _pooling(CohereEmbedRequest)
MODEL: dict[str, Schema] = {"model": {"type": "string"}}
RECENT: dict[str, Schema] = {"seconds": {"type": "number", "exclusiveMinimum": 0}}
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
    "purpose": {"enum": ["batch", "batch_output"]},
}

TOKENIZE_POST = Operation(
    "Tokenize a text or a conversation", "tokenizer", TOKENIZE, (Tokenized, TokenizedTexts)
)
DETOKENIZE_POST = Operation(
    "Decode token ids to text", "tokenizer", (BodySchema(DetokenizeRequest),), (Detokenized,)
)
TOKENIZER_GET = Operation(
    "The configuration of the tokenizer",
    "tokenizer",
    reply=(TokenizerDescription,),
    query=MODEL,
    errors=(*GETS, 400),
)
POOLING_POST = Operation("The pooled output of a model for each text", "pooling", (POOLING,), (PoolingList,))
CLASSIFY_POST = Operation("Classify texts", "pooling", (CLASSIFICATION,), (ClassificationList,))
SCORE_POST = Operation("Score documents against queries", "pooling", (SCORE,), (ScoreList,))
RERANK_POST = Operation(
    "Rank documents by their relevance to a query", "pooling", (RERANK,), (Ranking, OvmsRanking)
)
KSERVE_MODEL = Operation(
    "The versions and tensors of a model", "tensors", reply=(ModelMetadata,), errors=GETS
)
KSERVE_READY = Operation("Whether a model takes requests", "tensors", reply=(ModelReadiness,), errors=GETS)
TRITON_CONFIG = Operation("Triton's description of a model", "tensors", reply=JSON, errors=GETS)
TRITON_STATS = Operation("What a loaded model did, for Triton's clients", "tensors", reply=JSON, errors=GETS)
KSERVE_INFER = Operation("Run a model on tensors", "tensors", (INFER,), (InferReply,))
GENERATE = Operation("Triton's generate: a text, vectors, classes or scores", "text", (GENERATE_BODY,), JSON)
GENERATE_STREAM = Operation("The same text as events", "text", (GENERATE_BODY,), streams=True)
VERSION_STATUS = Operation("The state of a version of a model", "tensors", reply=JSON, errors=GETS)
SIGNATURE = Operation("The tensors of a model, for TensorFlow's clients", "tensors", reply=JSON, errors=GETS)
PREDICT = Operation("Run a model on rows or columns", "tensors", (BodySchema(PredictRequest),), JSON)
PING = Operation("Whether the server can serve requests now", "server", errors=(503,))

OPERATIONS: dict[str, dict[str, Operation]] = {
    "/chat/completions": {
        "POST": Operation("The next message of a conversation", "text", (CHAT,), (ChatCompletion,), ChatChunk)
    },
    "/chat/completions/batch": {
        "POST": Operation(
            "The next message of each of several conversations", "text", (BATCH,), (ChatCompletion,)
        )
    },
    "/audio/speech": {"POST": Operation("Speak a text", "speech", (SPEECH,), SOUND, SpokenEvent)},
    "/audio/transcriptions": {
        "POST": Operation(
            "The text of a recording",
            "speech",
            (TRANSCRIPTION,),
            (TranscriptionReply, VerboseReply, SegmentedReply),
            SpeechEvent,
            body_type=FORM,
        )
    },
    "/audio/translations": {
        "POST": Operation(
            "The text of a recording in English",
            "speech",
            (TRANSLATION,),
            (TranslationReply, VerboseReply),
            SpeechEvent,
            body_type=FORM,
        )
    },
    "/completions": {"POST": Operation("Complete a text", "text", (COMPLETION,), (Completion,), Completion)},
    "/responses": {
        "POST": Operation("Create a response", "responses", (RESPONSE,), (Response,), streams=True)
    },
    "/responses/input_tokens": {
        "POST": Operation("Count the tokens of an input", "responses", (INPUT,), (InputTokenCount,))
    },
    "/responses/{response_id}": {
        "GET": Operation(
            "Get a stored response, or its events",
            "responses",
            reply=(Response,),
            streams=True,
            query=EVENTS,
            errors=(*GETS, 400),
        ),
        "DELETE": Operation(
            "Delete a stored response", "responses", reply=(DeletedResponse,), errors=(*GETS, 400)
        ),
    },
    "/responses/{response_id}/cancel": {
        "POST": Operation("Cancel a background response", "responses", reply=(Response,), errors=(*GETS, 400))
    },
    "/responses/{response_id}/input_items": {
        "GET": Operation(
            "List the input items of a response",
            "responses",
            reply=(InputItemList,),
            query=PAGE,
            errors=(*GETS, 400),
        )
    },
    "/messages": {
        "POST": Operation(
            "The next message of a conversation, in Anthropic's format",
            "text",
            (MESSAGES,),
            (MessageReply,),
            streams=True,
        )
    },
    "/messages/count_tokens": {
        "POST": Operation("Count the tokens of a message's prompt", "text", (COUNT,), (TokenCount,))
    },
    "/files": {
        "POST": Operation("Upload a file of requests", "batches", (UPLOAD,), (FileObject,), body_type=FORM),
        "GET": Operation("List files", "batches", reply=(FileList,), query=FILE_PAGE, errors=(*GETS, 400)),
    },
    "/files/{file_id}": {
        "GET": Operation("One file", "batches", reply=(FileObject,), errors=GETS),
        "DELETE": Operation("Delete a file", "batches", reply=(DeletedFile,), errors=(*GETS, 400)),
    },
    "/files/{file_id}/content": {
        "GET": Operation("The content of a file", "batches", reply=JSONL, errors=GETS)
    },
    "/batches": {
        "POST": Operation("Run the requests of a file", "batches", (BodySchema(CreateBatch),), (Batch,)),
        "GET": Operation(
            "List batches", "batches", reply=(BatchList,), query=BATCH_PAGE, errors=(*GETS, 400)
        ),
    },
    "/batches/{batch_id}": {"GET": Operation("One batch", "batches", reply=(Batch,), errors=GETS)},
    "/batches/{batch_id}/cancel": {
        "POST": Operation("Cancel a batch", "batches", reply=(Batch,), errors=(*GETS, 400))
    },
    "/embeddings": {
        "POST": Operation("An embedding for each text", "pooling", (EMBEDDING,), (EmbeddingList,))
    },
    "/pooling": {"POST": POOLING_POST},
    "/classify": {"POST": CLASSIFY_POST},
    "/score": {"POST": SCORE_POST},
    "/rerank": {"POST": RERANK_POST},
    "/tokenize": {"POST": TOKENIZE_POST},
    "/detokenize": {"POST": DETOKENIZE_POST},
    "/tokenizer_info": {"GET": TOKENIZER_GET},
    "/models": dict.fromkeys(
        ("GET", "HEAD"),
        Operation("List the models that are ready", "models", reply=(ModelList,), errors=GUARDED),
    ),
    "/models/{name:path}": {
        "GET": Operation("One model, or why it is not available", "models", reply=(ModelInfo,), errors=GETS)
    },
    "/load_lora_adapter": {
        "POST": Operation("Load an adapter; ends when it is served", "models", (LOAD_LORA,), TEXT)
    },
    "/unload_lora_adapter": {
        "POST": Operation("Unload an adapter; requests that run go on", "models", (UNLOAD_LORA,), TEXT)
    },
    "/models/{name:path}/profile": {
        "GET": Operation(
            "How the time of the model's steps is spent",
            "models",
            reply=(ModelTimes,),
            query=RECENT,
            errors=(*GETS, 400),
        )
    },
    "/models/{name:path}/graph": {
        "GET": Operation("The graph of a model, node by node", "models", reply=(ModelGraph,), errors=GETS)
    },
    "/status": {
        "GET": Operation(
            "What the server does now, once or once a second",
            "server",
            reply=(StatusReply,),
            event=StatusReply,
            query=WATCH,
            errors=(*GUARDED, 400, 404, 429),
        )
    },
    "/requests/{request_id}/cancel": {
        "POST": Operation(
            "End a request in flight; its choices end with `abort`",
            "server",
            reply=(CancelledRequest,),
            errors=GETS,
        )
    },
}
"""Path under every prefix → method → operation."""

ROOT_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/tokenize": {"POST": TOKENIZE_POST},
    "/detokenize": {"POST": DETOKENIZE_POST},
    "/tokenizer_info": {"GET": TOKENIZER_GET},
    "/pooling": {"POST": POOLING_POST},
    "/classify": {"POST": CLASSIFY_POST},
    "/score": {"POST": SCORE_POST},
    "/rerank": {"POST": RERANK_POST},
    "/v2/rerank": {"POST": RERANK_POST},
    "/v1/embed": {
        "POST": Operation(
            "Embeddings in the format of Cohere's API version 1",
            "pooling",
            (COHERE_EMBED,),
            (EmbedFloatsReply, EmbedByTypeReply),
        )
    },
    "/v2/embed": {
        "POST": Operation(
            "Embeddings in the format of Cohere's API version 2",
            "pooling",
            (COHERE_EMBED,),
            (EmbedByTypeReply,),
        )
    },
    "/invocations": {
        "POST": Operation(
            "Chat, completion, embeddings, classes, scores or ranking, depending on the model and the body",
            "text",
            (CHAT, COMPLETION, EMBEDDING, POOLING, CLASSIFICATION, SCORE, RERANK),
            (ChatCompletion, Completion, EmbeddingList, PoolingList, ClassificationList, ScoreList, Ranking),
            streams=True,
        )
    },
    "/reset_prefix_cache": {
        "POST": Operation("Empty the prefix caches of all models", "server", reply=(Success,), errors=GETS)
    },
    "/models": dict.fromkeys(
        ("GET", "HEAD"), Operation("All models and their states", "models", reply=(ModelList,), errors=GETS)
    ),
    "/models/load": {
        "POST": Operation("Load a model; ends when it is loaded", "models", (NAMED_LOAD,), (Success,))
    },
    "/models/unload": {
        "POST": Operation("Unload a model until it is loaded", "models", (MODEL_NAME,), (Success,))
    },
    "/v2/repository/index": {"POST": Operation("Triton's list of models", "models", (INDEX,), JSON)},
    "/v2/repository/models/{name:path}": {
        "POST": Operation("{name}/load and {name}/unload, as Triton has them", "models", reply=JSON)
    },
    "/v1/config": {
        "GET": Operation("OpenVINO Model Server's status of all models", "models", reply=JSON, errors=GETS)
    },
    "/v1/config/reload": {"POST": Operation("Look at the model repository again", "models", reply=JSON)},
    "/health": {"GET": PING, "HEAD": PING},
    "/ping": {"GET": PING, "HEAD": PING, "POST": PING},
    "/load": {
        "GET": Operation("Requests in flight in this worker", "server", reply=(ServerLoad,), errors=())
    },
    "/v1/models/{name:path}/versions/{version}": {"GET": VERSION_STATUS},
    "/v1/models/{name:path}/metadata": {"GET": SIGNATURE},
    "/v1/models/{name:path}/versions/{version}/metadata": {"GET": SIGNATURE},
    "/v1/models/{name:path}:predict": {"POST": PREDICT},
    "/v1/models/{name:path}/versions/{version}:predict": {"POST": PREDICT},
    "/v2": {"GET": Operation("Which server this is", "tensors", reply=(ServerMetadata,), errors=GUARDED)},
    "/v2/models": {
        "GET": Operation("The names of all models", "tensors", reply=(ModelNames,), errors=GUARDED)
    },
    "/v2/models/{name:path}": {"GET": KSERVE_MODEL},
    "/v2/models/{name:path}/ready": {"GET": KSERVE_READY},
    "/v2/models/{name:path}/config": {"GET": TRITON_CONFIG},
    "/v2/models/{name:path}/stats": {"GET": TRITON_STATS},
    "/v2/models/{name:path}/infer": {"POST": KSERVE_INFER},
    "/v2/models/{name:path}/generate": {"POST": GENERATE},
    "/v2/models/{name:path}/generate_stream": {"POST": GENERATE_STREAM},
    "/v2/models/{name:path}/versions/{version}/generate": {"POST": GENERATE},
    "/v2/models/{name:path}/versions/{version}/generate_stream": {"POST": GENERATE_STREAM},
    "/v2/models/{name:path}/versions/{version}": {"GET": KSERVE_MODEL},
    "/v2/models/{name:path}/versions/{version}/ready": {"GET": KSERVE_READY},
    "/v2/models/{name:path}/versions/{version}/config": {"GET": TRITON_CONFIG},
    "/v2/models/{name:path}/versions/{version}/stats": {"GET": TRITON_STATS},
    "/v2/models/{name:path}/versions/{version}/infer": {"POST": KSERVE_INFER},
    "/v2/health/live": {
        method: Operation("Whether the worker responds", "server", reply=(Liveness,), errors=())
        for method in ("GET", "HEAD")
    },
    "/v2/health/ready": {
        method: Operation(
            "Whether every model that can be loaded is loaded", "server", reply=(Readiness,), errors=(503,)
        )
        for method in ("GET", "HEAD")
    },
    "/version": {"GET": Operation("The server's version", "server", reply=(ServerVersion,), errors=())},
    "/metrics": {"GET": Operation("Prometheus' text exposition", "server", reply=TEXT, errors=())},
    "/openapi.json": {"GET": Operation("This document", "server", reply=JSON, errors=())},
    "/docs": {"GET": Operation("This document as a web page", "server", reply=HTML, errors=())},
    "/": dict.fromkeys(("GET", "HEAD"), Operation("Leads to the status page", "server", errors=())),
    "/status": {"GET": Operation("The status page", "server", reply=HTML, errors=())},
    "/status/{file}": {"GET": Operation("A file of the status page", "server", reply=TEXT, errors=(404,))},
}
"""Path without a prefix → method → what it does."""
