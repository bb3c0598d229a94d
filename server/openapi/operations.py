"""The table behind the OpenAPI document: bodies, replies and errors of every path under the prefixes.

One entry for each method of each route in `server/apis`; a test compares the two.
"""

from __future__ import annotations

from server.apis.batches.batch_models import Batch, BatchList, CreateBatch
from server.apis.batches.files.file_models import DeletedFile, FileList, FileObject
from server.apis.decisions.replies import DecisionReply, SystemOneReply
from server.apis.messages.reply_models import MessageReply, TokenCount
from server.apis.moderations.replies import Moderation
from server.apis.operations.cancel import CancelledRequest
from server.apis.operations.graph import UnfoldedGraph
from server.apis.pooling.replies.ranking import OvmsRanking, Ranking, ScoreList
from server.apis.pooling.replies.reply_models import ClassificationList, EmbeddingList, PoolingList
from server.apis.responses.reply_models import (
    CompactedResponse,
    DeletedResponse,
    InputItemList,
    InputTokenCount,
    Response,
)
from server.apis.retrieval.replies import SearchReply
from server.apis.speech.events import SpeechEvent
from server.apis.speech.replies import SegmentedReply, TranscriptionReply, TranslationReply, VerboseReply
from server.apis.tokenizing.reply import (
    Detokenized,
    PlacedTokens,
    Tokenized,
    TokenizedPieces,
    TokenizedTexts,
    TokenizerDescription,
)
from server.apis.tokenizing.request import DetokenizeRequest
from server.apis.usage.endpoint import UsagePage
from server.apis.voice.events import SpokenEvent
from server.openapi.operation import (
    BATCH,
    BATCH_PAGE,
    CHAT,
    CLASSIFICATION,
    COMPACT,
    COMPLETION,
    COUNT,
    DECISION,
    EMBEDDING,
    EVENTS,
    FILE_PAGE,
    FORM,
    GETS,
    GUARDED,
    INPUT,
    JSONL,
    LOAD_LORA,
    MESSAGES,
    MODEL,
    MODERATION,
    PAGE,
    POOLING,
    RECENT,
    RERANK,
    RESPONSE,
    SCORE,
    SEARCH,
    SOUND,
    SPEECH,
    SYSTEM_ONE,
    TEXT,
    TOKENIZE,
    TRANSCRIPTION,
    TRANSLATION,
    UNLOAD_LORA,
    UPLOAD,
    USAGE,
    WATCH,
    Operation,
)
from server.openapi.schemas import BodySchema
from server.openapi.store_operations import STORE_OPERATIONS
from server.schema.model_list import ModelInfo, ModelList
from server.schema.reply_models import ChatChunk, ChatCompletion, Completion
from server.services.model_times import ModelTimes
from server.status.reply_models import StatusReply

TOKENIZE_POST = Operation(
    "Tokenize a text or a conversation",
    "tokenizer",
    TOKENIZE,
    (Tokenized, TokenizedTexts, TokenizedPieces, PlacedTokens),
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
DECISIONS_POST = Operation(
    "Answer questions about an input by probabilities",
    "decisions",
    (DECISION, SYSTEM_ONE),
    (DecisionReply, SystemOneReply),
)
USAGE_GET = Operation(
    "Requests and tokens of each day, of the key that asks, or with an admin key of all",
    "server",
    reply=(UsagePage,),
    query=USAGE,
    errors=(*GUARDED, 400, 503),
)

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
    "/fim/completions": {
        "POST": Operation("Fill the gap of a text", "text", (COMPLETION,), (ChatCompletion,), ChatChunk)
    },
    "/beta/completions": {
        "POST": Operation("Fill the gap of a text", "text", (COMPLETION,), (Completion,), Completion)
    },
    "/completions": {"POST": Operation("Complete a text", "text", (COMPLETION,), (Completion,), Completion)},
    "/responses": {
        "POST": Operation("Create a response", "responses", (RESPONSE,), (Response,), streams=True),
        "GET": Operation("Open a WebSocket for responses", "responses", errors=(*GUARDED, 426)),
    },
    "/responses/compact": {
        "POST": Operation("Summarize a conversation", "responses", (COMPACT,), (CompactedResponse,))
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
        "POST": Operation(
            "Upload a file: of requests, or for vector stores",
            "batches",
            (UPLOAD,),
            (FileObject,),
            body_type=FORM,
        ),
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
    "/decisions": {"POST": DECISIONS_POST},
    "/systemone": {"POST": DECISIONS_POST},
    "/moderations": {
        "POST": Operation("Whether texts are harmful", "decisions", (MODERATION,), (Moderation,))
    },
    "/search": {
        "POST": Operation("The passages that answer a query", "retrieval", (SEARCH,), (SearchReply,))
    },
    **STORE_OPERATIONS,
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
    "/models": {
        "GET": Operation("List the models that are ready", "models", reply=(ModelList,), errors=GUARDED)
    },
    "/models/{name:path}": {
        "GET": Operation("One model, or why it is not available", "models", reply=(ModelInfo,), errors=GETS)
    },
    "/load_lora_adapter": {
        "POST": Operation("Load an adapter; ends when it is served", "models", (LOAD_LORA,), TEXT)
    },
    "/unload_lora_adapter": {
        "POST": Operation("Unload an adapter; requests that run go on", "models", (UNLOAD_LORA,), TEXT)
    },
    "/usage": {"GET": USAGE_GET},
    "/organization/usage/completions": {"GET": USAGE_GET},
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
        "GET": Operation("The graph of a model, node by node", "models", reply=(UnfoldedGraph,), errors=GETS)
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
