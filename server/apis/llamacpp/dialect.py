"""llama.cpp's dialect: errors have its types, and where nothing says how to sample, its own defaults do."""

from __future__ import annotations

from dataclasses import replace

from pipelines.base.errors import BraidError, ContextTooLong
from pipelines.values.tasks import GenerationInput
from server.dialects import Dialect
from server.schema.reply_models import Reply

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
"""HTTP status → llama.cpp's type; any other is a server_error."""
DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


class LlamaErrorBody(Reply):
    code: int
    message: str
    type: str


class LlamaError(Reply):
    error: LlamaErrorBody


def llama_error(error: BraidError) -> LlamaError:
    """The error body of llama.cpp's server."""
    kind = "exceed_context_size_error" if isinstance(error, ContextTooLong) else None
    kind = kind or TYPES.get(error.status, "server_error" if error.status >= 500 else TYPES[400])
    return LlamaError(error=LlamaErrorBody(code=error.status, message=error.message, type=kind))


def _with_defaults(generation: GenerationInput) -> GenerationInput:
    return replace(generation, fallbacks=DEFAULTS)


LLAMA = Dialect("llamacpp", llama_error, transform_generation=_with_defaults)
