"""What the OpenAPI document says of Gemini's paths."""

from __future__ import annotations

from server.apis.gemini import unsupported_fields as gemini
from server.apis.gemini.reply_models import GeminiModel, GeminiModels, GenerateContentReply, TokenCount
from server.apis.gemini.request import CountRequest, GeminiRequest
from server.openapi.operation import GETS, Operation
from server.openapi.schemas import BodySchema

GENERATE = BodySchema(GeminiRequest, gemini.IGNORED, gemini.REFUSED)
COUNT = BodySchema(CountRequest)
GEMINI_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/v1beta/models": {
        "GET": Operation("All models that chat, in Gemini's format", "models", reply=(GeminiModels,), errors=GETS)
    },
    "/v1beta/models/{name:path}": {
        "GET": Operation("One model, in Gemini's format", "models", reply=(GeminiModel,), errors=GETS)
    },
    "/v1beta/models/{name:path}:generateContent": {
        "POST": Operation(
            "The next message of a conversation, in Gemini's format", "text", (GENERATE,), (GenerateContentReply,)
        )
    },
    "/v1beta/models/{name:path}:streamGenerateContent": {
        "POST": Operation("The same in pieces, by `alt=sse` as events", "text", (GENERATE,), streams=True)
    },
    "/v1beta/models/{name:path}:countTokens": {
        "POST": Operation("Count the tokens of such a prompt", "text", (COUNT,), (TokenCount,))
    },
}
