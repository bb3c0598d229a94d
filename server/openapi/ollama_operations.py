"""What the OpenAPI document says of Ollama's paths."""

from __future__ import annotations

from server.apis.ollama.embed_endpoint import EmbedBody, EmbeddingsBody
from server.apis.ollama.library_endpoints import CopyBody, CreateBody
from server.apis.ollama.models_endpoint import NamedModel
from server.apis.ollama.pull_endpoint import PullModelBody
from server.apis.ollama.reply_models import (
    ApiVersion,
    ChatPart,
    GeneratePart,
    InstalledModels,
    ModelsInMemory,
    OllamaVector,
    OllamaVectors,
    PullProgress,
    ShownModel,
)
from server.apis.ollama.requests import ChatBody, GenerateBody
from server.openapi.operation import GETS, GUARDED, Operation
from server.openapi.schemas import BodySchema

CHAT = BodySchema(ChatBody, ChatBody.ignored, ChatBody.refused)
GENERATE = BodySchema(GenerateBody, GenerateBody.ignored, GenerateBody.refused)
TAGS = Operation("The models of the repository", "models", reply=(InstalledModels,), errors=GETS)
LOADED = Operation("The models in memory", "models", reply=(ModelsInMemory,), errors=GETS)
VERSION = Operation("The version of Ollama's API", "models", reply=(ApiVersion,), errors=GUARDED)

OLLAMA_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/api/chat": {
        "POST": Operation("Reply to a conversation, a line for each piece", "text", (CHAT,), (ChatPart,))
    },
    "/api/generate": {
        "POST": Operation("Reply to a prompt, a line for each piece", "text", (GENERATE,), (GeneratePart,))
    },
    "/api/embed": {
        "POST": Operation("A vector for each text", "pooling", (BodySchema(EmbedBody),), (OllamaVectors,))
    },
    "/api/embeddings": {
        "POST": Operation("A vector", "pooling", (BodySchema(EmbeddingsBody),), (OllamaVector,))
    },
    "/api/tags": {"GET": TAGS},
    "/api/ps": {"GET": LOADED},
    "/api/version": {"GET": VERSION},
    "/api/pull": {
        "POST": Operation(
            "Fetch a model, a line for each step", "models", (BodySchema(PullModelBody),), (PullProgress,)
        )
    },
    "/api/copy": {"POST": Operation("Serve a model under a further name", "models", (BodySchema(CopyBody),))},
    "/api/create": {
        "POST": Operation(
            "The same, a line for each step", "models", (BodySchema(CreateBody),), (PullProgress,)
        )
    },
    "/api/delete": {
        "DELETE": Operation("Remove a model that was fetched or copied", "models", (BodySchema(NamedModel),))
    },
    "/api/show": {"POST": Operation("One model", "models", (BodySchema(NamedModel),), (ShownModel,))},
}
