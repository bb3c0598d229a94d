"""Dialects: for each path, the shape of its errors, the rules for its bodies and its own defaults.

One endpoint serves all dialects; a dialect is a table of data.
"""

from __future__ import annotations

import re

from server.dialects.cohere import PATHS as COHERE_PATHS
from server.dialects.definitions import ANTHROPIC, COHERE, KSERVE, OPENAI, OVMS
from server.dialects.dialect import Dialect
from server.schema.anthropic_errors import PATHS as ANTHROPIC_PATHS

__all__ = ["ANTHROPIC", "COHERE", "KSERVE", "OPENAI", "OVMS", "Dialect", "dialect_of"]

KSERVE_PATHS = re.compile(r"/v2(/.*)?|/v1/models/.+(:predict|/metadata|/versions/[^/]+)", re.DOTALL)
"""KServe's paths, and those of TensorFlow Serving."""

OVMS_PATHS = ("/v3/", "/v1/config")


def dialect_of(path: str) -> Dialect:
    """The dialect of a request path; the path need not exist."""
    if path.endswith(ANTHROPIC_PATHS):
        return ANTHROPIC
    if path in COHERE_PATHS:
        return COHERE
    if KSERVE_PATHS.fullmatch(path):
        return KSERVE
    return OVMS if path == "/v3" or path.startswith(OVMS_PATHS) else OPENAI
