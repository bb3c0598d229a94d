"""The paths of OpenAI's Responses."""

from __future__ import annotations

from server.apis.responses.endpoint import (
    CompactEndpoint,
    CountInputTokensEndpoint,
    ResponsesEndpoint,
)
from server.apis.responses.stored_endpoint import (
    CancelResponseEndpoint,
    InputItemsEndpoint,
    StoredResponseEndpoint,
)
from server.services.api import Api

API = Api(
    "responses",
    prefixed={
        "/responses": ResponsesEndpoint,
        "/responses/compact": CompactEndpoint,
        "/responses/input_tokens": CountInputTokensEndpoint,
        "/responses/{response_id}": StoredResponseEndpoint,
        "/responses/{response_id}/cancel": CancelResponseEndpoint,
        "/responses/{response_id}/input_items": InputItemsEndpoint,
    },
)
