"""What the OpenAPI document says of Gemini's paths."""

from __future__ import annotations

from server.apis.gemini import unsupported_fields as gemini
from server.apis.gemini.reply_models import GeminiModel, GeminiModels, GeminiTokenCount, GenerateContentReply
from server.apis.gemini.request import GeminiCountRequest, GeminiRequest
from server.openapi.operation import GETS, Operation
from server.openapi.schemas import BodySchema

GENERATE = BodySchema(GeminiRequest, gemini.IGNORED, gemini.REFUSED)
COUNT = BodySchema(GeminiCountRequest)
METHODS = {
    "generateContent": Operation(
        "The next message of a conversation, in Gemini's format",
        "text",
        (GENERATE,),
        (GenerateContentReply,),
    ),
    "streamGenerateContent": Operation(
        "The same in pieces, by `alt=sse` as events", "text", (GENERATE,), streams=True
    ),
    "countTokens": Operation("Count the tokens of such a prompt", "text", (COUNT,), (GeminiTokenCount,)),
}
GEMINI_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/v1beta/models": {
        "GET": Operation(
            "Models that chat, for Gemini's clients", "models", reply=(GeminiModels,), errors=GETS
        )
    },
    "/v1beta/models/{name:path}": {
        "GET": Operation("One model, in Gemini's format", "models", reply=(GeminiModel,), errors=GETS)
    },
    **{
        f"/{version}/models/{{name:path}}:{method}": {"POST": operation}
        for version in ("v1", "v1beta")
        for method, operation in METHODS.items()
    },
}
