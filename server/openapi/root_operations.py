"""The half of the table behind the OpenAPI document whose paths have no prefix."""

from __future__ import annotations

from dataclasses import replace

from server.apis.decisions.scoring_endpoint import GenerativeScores
from server.apis.kserve.messages import (
    InferReply,
    ModelMetadata,
    ModelNames,
    ModelReadiness,
    ServerMetadata,
)
from server.apis.kserve.predict import PredictRequest
from server.apis.operations.health import Health, Liveness, Readiness
from server.apis.operations.load import ServerLoad
from server.apis.operations.pulling import PullBody, PullList, PullStep
from server.apis.operations.version import ServerVersion
from server.apis.pooling.replies.cohere import EmbedByTypeReply, EmbedFloatsReply
from server.apis.pooling.replies.ranking import Ranking, ScoreList
from server.apis.pooling.replies.reply_models import (
    ClassificationList,
    EmbeddingList,
    EntityList,
    PoolingList,
)
from server.apis.scale_out.render_endpoint import RenderedPrompt, RenderedPrompts
from server.apis.scale_out.tokens_reply import TokensChunk, TokensReply
from server.apis.tei.other_endpoints import Info
from server.apis.tei.replies import (
    DecodedTexts,
    Predictions,
    RankedTexts,
    Similarities,
    SparseInputs,
    TokenVectors,
    Vectors,
)
from server.openapi.gemini_operations import GEMINI_OPERATIONS
from server.openapi.llama_operations import LLAMA_OPERATIONS
from server.openapi.ollama_operations import OLLAMA_OPERATIONS
from server.openapi.operation import (
    ABORT,
    CHAT,
    CLASSIFICATION,
    COHERE_EMBED,
    COMPLETION,
    EMBEDDING,
    ENTITIES,
    GENERATE_BODY,
    GETS,
    GUARDED,
    HTML,
    INDEX,
    INFER,
    JSON,
    MODEL,
    MODEL_NAME,
    NAMED_LOAD,
    POOLING,
    RENDER_CHAT,
    RENDER_COMPLETION,
    RERANK,
    SCORE,
    SCORING,
    TEI_DECODE,
    TEI_EMBED,
    TEI_POSTS,
    TEI_PREDICT,
    TEI_RANK,
    TEI_SIMILARITY,
    TEXT,
    TOKENS_IN,
    Operation,
)
from server.openapi.operations import (
    CLASSIFY_POST,
    DETOKENIZE_POST,
    POOLING_POST,
    RERANK_POST,
    SCORE_POST,
    TOKENIZE_POST,
    TOKENIZER_GET,
)
from server.openapi.schemas import BodySchema
from server.openapi.trainer_operations import TRAINER_OPERATIONS
from server.schema.model_list import ModelList
from server.schema.reply_models import ChatChunk, ChatCompletion, Completion, Success

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
HEALTH = replace(PING, reply=(Health,))

ROOT_OPERATIONS: dict[str, dict[str, Operation]] = {
    **GEMINI_OPERATIONS,
    **OLLAMA_OPERATIONS,
    **LLAMA_OPERATIONS,
    "/tokenize": {"POST": TOKENIZE_POST},
    "/detokenize": {"POST": DETOKENIZE_POST},
    "/tokenizer_info": {"GET": TOKENIZER_GET},
    "/pooling": {"POST": POOLING_POST},
    "/classify": {"POST": CLASSIFY_POST},
    "/gliner": {
        "POST": Operation("The entities of a text for labels", "pooling", (ENTITIES,), (EntityList,))
    },
    "/score": {"POST": SCORE_POST},
    "/rerank": {
        "POST": Operation(
            "Rank documents, or texts as text-embeddings-inference does",
            "pooling",
            (RERANK, TEI_RANK),
            (Ranking, RankedTexts),
        )
    },
    "/embed": {
        "POST": Operation("A vector for each input", "tei", (TEI_EMBED,), (Vectors,), errors=TEI_POSTS)
    },
    "/embed_all": {
        "POST": Operation(
            "A vector for each token of each input", "tei", (TEI_EMBED,), (TokenVectors,), errors=TEI_POSTS
        )
    },
    "/embed_sparse": {
        "POST": Operation(
            "A weight for each word in each input",
            "tei",
            (TEI_EMBED,),
            (SparseInputs,),
            errors=TEI_POSTS,
        )
    },
    "/predict": {
        "POST": Operation("All labels of each input", "tei", (TEI_PREDICT,), (Predictions,), errors=TEI_POSTS)
    },
    "/similarity": {
        "POST": Operation(
            "How similar sentences are to one", "tei", (TEI_SIMILARITY,), (Similarities,), errors=TEI_POSTS
        )
    },
    "/decode": {
        "POST": Operation("The texts of token ids", "tei", (TEI_DECODE,), (DecodedTexts,), errors=TEI_POSTS)
    },
    "/info": {
        "GET": Operation("What a model is", "tei", reply=(Info,), query=MODEL, errors=(*GETS, 422, 424))
    },
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
    "/beta/completions": {
        "POST": Operation("Fill the gap of a text", "text", (COMPLETION,), (Completion,), Completion)
    },
    "/beta/chat/completions": {
        "POST": Operation("The next message of a conversation", "text", (CHAT,), (ChatCompletion,), ChatChunk)
    },
    "/generative_scoring": {
        "POST": Operation(
            "How probable tokens are after a query and each of several items",
            "decisions",
            (SCORING,),
            (GenerativeScores,),
        )
    },
    "/v1/chat/completions/render": {
        "POST": Operation(
            "The prompt of a conversation in token ids", "text", (RENDER_CHAT,), (RenderedPrompt,)
        )
    },
    "/v1/completions/render": {
        "POST": Operation("Prompts in token ids", "text", (RENDER_COMPLETION,), (RenderedPrompts,))
    },
    "/inference/v1/generate": {
        "POST": Operation("Token ids after token ids", "text", (TOKENS_IN,), (TokensReply,), TokensChunk)
    },
    "/inference/v1/abort_requests": {"POST": Operation("End requests in flight", "text", (ABORT,))},
    **TRAINER_OPERATIONS,
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
    "/models": {"GET": Operation("All models and their states", "models", reply=(ModelList,), errors=GETS)},
    "/models/load": {
        "POST": Operation("Load a model; ends when it is loaded", "models", (NAMED_LOAD,), (Success,))
    },
    "/models/unload": {
        "POST": Operation("Unload a model until it is loaded", "models", (MODEL_NAME,), (Success,))
    },
    "/models/pull": {
        "POST": Operation(
            "Fetch a model from a hub into the model repository",
            "models",
            (BodySchema(PullBody),),
            (PullStep,),
            streams=True,
        ),
        "GET": Operation("The models that were fetched", "models", reply=(PullList,), errors=GETS),
    },
    "/models/pull/{pull_id}": {
        "GET": Operation("How far a model is fetched", "models", reply=(PullStep,), errors=GETS),
        "DELETE": Operation("Fetch a model no longer", "models", reply=(PullStep,), errors=GETS),
    },
    "/v2/repository/index": {"POST": Operation("Triton's list of models", "models", (INDEX,), JSON)},
    "/v2/repository/models/{name:path}": {
        "POST": Operation("{name}/load and {name}/unload, as Triton has them", "models", reply=JSON)
    },
    "/v1/config": {
        "GET": Operation("OpenVINO Model Server's status of all models", "models", reply=JSON, errors=GETS)
    },
    "/v1/config/reload": {"POST": Operation("Look at the model repository again", "models", reply=JSON)},
    "/health": {"GET": HEALTH},
    "/v1/health": {"GET": HEALTH},
    "/ping": {"GET": PING, "POST": PING},
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
        "GET": Operation("Whether the worker responds", "server", reply=(Liveness,), errors=())
    },
    "/v2/health/ready": {
        "GET": Operation(
            "Whether every model that can be loaded is loaded", "server", reply=(Readiness,), errors=(503,)
        )
    },
    "/version": {"GET": Operation("The server's version", "server", reply=(ServerVersion,), errors=())},
    "/metrics": {"GET": Operation("Prometheus' text exposition", "server", reply=TEXT, errors=())},
    "/openapi.json": {"GET": Operation("This document", "server", reply=JSON, errors=())},
    "/docs": {"GET": Operation("This document as a web page", "server", reply=HTML, errors=())},
    "/": {
        "GET": Operation(
            "Leads browsers to the status page; other programs read Ollama's word that a server runs",
            "server",
            reply=TEXT,
            errors=(),
        ),
        "POST": Operation(
            "Whatever the model does, as text-embeddings-inference has it",
            "tei",
            (TEI_EMBED, TEI_PREDICT, TEI_SIMILARITY, TEI_RANK),
            (Vectors, Predictions, Similarities, RankedTexts),
            errors=TEI_POSTS,
        ),
    },
    "/status": {"GET": Operation("The status page", "server", reply=HTML, errors=())},
    "/status/{file}": {"GET": Operation("A file of the status page", "server", reply=TEXT, errors=(404,))},
}
"""Path without a prefix → method → what it does."""
