"""What the OpenAPI document says of llama.cpp's own paths."""

from __future__ import annotations

from server.apis.llamacpp.body import CompletionBody, InfillBody, SamplingBody
from server.apis.llamacpp.reply_models import AppliedTemplate, LlamaText
from server.apis.llamacpp.server_endpoints import LlamaEmbeddingRequest
from server.openapi.operation import CHAT, GETS, JSON, MODEL, Operation
from server.openapi.schemas import BodySchema


def _body(model: type[SamplingBody]) -> BodySchema:
    return BodySchema(model, model.ignored, model.refused)


COMPLETION, INFILL = _body(CompletionBody), _body(InfillBody)
COMPLETE = Operation("Continue a text", "text", (COMPLETION,), (LlamaText,), LlamaText)
EMBED = Operation(
    "A vector for each text",
    "pooling",
    (BodySchema(LlamaEmbeddingRequest, LlamaEmbeddingRequest.ignored, LlamaEmbeddingRequest.refused),),
    JSON,
)
APPLY = Operation("The prompt of a conversation", "text", (CHAT,), (AppliedTemplate,))
LLAMA_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/completion": {"POST": COMPLETE},
    "/completions": {"POST": COMPLETE},
    "/infill": {"POST": Operation("Fill the gap of a text", "text", (INFILL,), (LlamaText,), LlamaText)},
    "/props": {"GET": Operation("What a model is", "models", reply=JSON, query=MODEL, errors=(*GETS, 400))},
    "/slots": {
        "GET": Operation(
            "The sequences of a model",
            "models",
            reply=JSON,
            query={**MODEL, "fail_on_no_slot": {"type": "boolean"}},
            errors=(*GETS, 400),
        )
    },
    "/apply-template": {"POST": APPLY},
    "/embedding": {"POST": EMBED},
    "/embeddings": {"POST": EMBED},
}
