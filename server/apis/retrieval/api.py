"""The path of searches."""

from __future__ import annotations

from server.apis.retrieval.search_endpoint import SearchEndpoint
from server.services.api import Api

API = Api("retrieval", prefixed={"/search": SearchEndpoint})
