"""The paths of Anthropic's Messages, and their dialect."""

from __future__ import annotations

from server.apis.messages.endpoint import CountTokensEndpoint, MessagesEndpoint
from server.dialects import Dialect
from server.schema.anthropic_errors import ID_HEADER, anthropic_error
from server.services.api import Api

API = Api(
    "anthropic",
    prefixed={"/messages": MessagesEndpoint, "/messages/count_tokens": CountTokensEndpoint},
    dialect=Dialect("anthropic", anthropic_error, id_header=ID_HEADER),
    speaks=r".*/messages(?:/count_tokens)?",
)
