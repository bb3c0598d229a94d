"""The own paths of llama.cpp's server, and their dialect."""

from __future__ import annotations

from server.apis.llamacpp.dialect import LLAMA
from server.apis.llamacpp.server_endpoints import (
    ApplyTemplateEndpoint,
    LlamaEmbeddingEndpoint,
    PropsEndpoint,
    SlotsEndpoint,
)
from server.apis.llamacpp.text_endpoint import InfillEndpoint, LlamaCompletionEndpoint
from server.services.api import Api

API = Api(
    "llamacpp",
    root={
        "/completion": LlamaCompletionEndpoint,
        "/completions": LlamaCompletionEndpoint,
        "/infill": InfillEndpoint,
        "/props": PropsEndpoint,
        "/slots": SlotsEndpoint,
        "/apply-template": ApplyTemplateEndpoint,
        "/embedding": LlamaEmbeddingEndpoint,
        "/embeddings": LlamaEmbeddingEndpoint,
    },
    dialect=LLAMA,
    speaks=r"/(?:completions?|infill|props|slots|apply-template|embeddings?)",
)
