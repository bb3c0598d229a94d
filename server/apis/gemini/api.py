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

METHODS = {
    "generateContent": GenerateContentEndpoint,
    "streamGenerateContent": StreamGenerateContentEndpoint,
    "countTokens": GeminiCountEndpoint,
}
API = Api(
    "gemini",
    root={
        "/v1beta/models": GeminiModelsEndpoint,
        "/v1beta/models/{name:path}": GeminiModelEndpoint,
        **{
            f"/{version}/models/{{name:path}}:{method}": endpoint
            for version in ("v1", "v1beta")  # google-genai asks for one, gemini-cli for the other
            for method, endpoint in METHODS.items()
        },
    },
    dialect=Dialect("gemini", gemini_error, key_parameter="key"),
    speaks=rf"/v1beta(?:/.*)?|/v1/models/.+:(?:{'|'.join(METHODS)})",
)
