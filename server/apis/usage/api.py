"""The paths of usage: Braid's own, and OpenAI's of an organization."""

from __future__ import annotations

from server.apis.usage.endpoint import UsageEndpoint
from server.services.api import Api

API = Api("usage", prefixed={"/usage": UsageEndpoint, "/organization/usage/completions": UsageEndpoint})
