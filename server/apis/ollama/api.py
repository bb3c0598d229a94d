"""The paths of Ollama, and their dialect."""

from __future__ import annotations

from server.apis.ollama.dialect import OLLAMA
from server.apis.ollama.embed_endpoint import OllamaEmbeddingsEndpoint, OllamaEmbedEndpoint
from server.apis.ollama.library_endpoints import CopyEndpoint, CreateEndpoint, DeleteEndpoint
from server.apis.ollama.models_endpoint import (
    ApiVersionEndpoint,
    LoadedEndpoint,
    ShowEndpoint,
    TagsEndpoint,
)
from server.apis.ollama.pull_endpoint import OllamaPullEndpoint
from server.apis.ollama.text_endpoint import OllamaChatEndpoint, OllamaGenerateEndpoint
from server.apis.operations.status_page import FrontEndpoint
from server.services.api import Api

API = Api(
    "ollama",
    root={
        "/": FrontEndpoint,
        "/api/chat": OllamaChatEndpoint,
        "/api/generate": OllamaGenerateEndpoint,
        "/api/embed": OllamaEmbedEndpoint,
        "/api/embeddings": OllamaEmbeddingsEndpoint,
        "/api/tags": TagsEndpoint,
        "/api/ps": LoadedEndpoint,
        "/api/show": ShowEndpoint,
        "/api/version": ApiVersionEndpoint,
        "/api/pull": OllamaPullEndpoint,
        "/api/copy": CopyEndpoint,
        "/api/create": CreateEndpoint,
        "/api/delete": DeleteEndpoint,
    },
    dialect=OLLAMA,
    speaks=r"/api(?:/.*)?",
)
