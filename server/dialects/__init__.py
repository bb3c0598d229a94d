"""Who speaks how: a path's dialect says how errors are written, and what bodies must be and stand for.

One endpoint serves all of them; a dialect is a table.
"""

from __future__ import annotations

from server.dialects.cohere import PATHS as COHERES
from server.dialects.dialect import Dialect
from server.dialects.tables import ANTHROPIC, COHERE, OPENAI, OVMS
from server.messages.errors import PATHS as MESSAGES

__all__ = ["ANTHROPIC", "COHERE", "OPENAI", "OVMS", "Dialect", "dialect_of"]


def dialect_of(path: str) -> Dialect:
    """The dialect of a request's path, served or not."""
    if path.endswith(MESSAGES):
        return ANTHROPIC
    if path in COHERES:
        return COHERE
    return OVMS if path == "/v3" or path.startswith("/v3/") else OPENAI
