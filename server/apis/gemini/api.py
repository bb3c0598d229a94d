"""The paths of Gemini's API, and their dialect."""

from __future__ import annotations

from server.apis.gemini.endpoint import (
    GeminiCountEndpoint,
    GenerateContentEndpoint,
    StreamGenerateContentEndpoint,
)
from server.apis.gemini.errors import gemini_error
from server.apis.gemini.models_endpoint import GeminiModelEndpoint, GeminiModelsEndpoint
from server.dialects import Dialect
from server.services.api import Api

API = Api(
    "gemini",
    root={
        "/v1beta/models": GeminiModelsEndpoint,
        "/v1beta/models/{name:path}": GeminiModelEndpoint,
        "/v1beta/models/{name:path}:generateContent": GenerateContentEndpoint,
        "/v1beta/models/{name:path}:streamGenerateContent": StreamGenerateContentEndpoint,
        "/v1beta/models/{name:path}:countTokens": GeminiCountEndpoint,
    },
    dialect=Dialect("gemini", gemini_error),
    speaks=r"/v1beta(?:/.*)?",
)
