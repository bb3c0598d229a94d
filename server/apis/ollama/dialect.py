"""Ollama's dialect: errors are {"error": text}, and where nothing says how to sample, its own defaults do."""

from __future__ import annotations

from dataclasses import replace

from pipelines.values.tasks import GenerationInput
from server.dialects import Dialect
from server.schema.plain_errors import plain_error

DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}


def _with_defaults(generation: GenerationInput) -> GenerationInput:
    return replace(generation, fallbacks=DEFAULTS)


OLLAMA = Dialect("ollama", plain_error, transform_generation=_with_defaults)
