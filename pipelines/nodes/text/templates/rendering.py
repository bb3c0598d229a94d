"""Renders a template of a request, in a process of its own (`pipelines.base.bounded_process`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template

MAX_ERROR_CHARS = 4096
OUT_OF_MEMORY = "it took more memory than it may take"
NUM_COMPILED = 32
"""How many compiled templates are cached."""


@lru_cache(NUM_COMPILED)
def _compiled(source: str, special_tokens: tuple[tuple[str, str], ...]) -> Template:
    return Template(source, dict(special_tokens))


def outcome(job: dict[str, Any]) -> dict[str, str]:
    """The text of a job, or why there is none."""
    try:
        template = _compiled(job["source"], tuple(sorted(job["special_tokens"].items())))
        return {"text": template.render(**job["arguments"])}
    except ChatTemplateError as error:
        text = OUT_OF_MEMORY if isinstance(error.__cause__, MemoryError) else str(error)
        return {"error": text[:MAX_ERROR_CHARS]}
