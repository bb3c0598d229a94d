"""The path of Mistral; its other paths are OpenAI's."""

from __future__ import annotations

from server.apis.mistral.fim_endpoint import FimEndpoint
from server.services.api import Api

API = Api("mistral", prefixed={"/fim/completions": FimEndpoint})
