"""Templates that requests bring: rendered in processes beside the worker, with bounded time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base.bounded_processes import BoundedProcesses, OutOfBounds, OutOfTime
from pipelines.base.errors import RequestError
from pipelines.nodes.text.templates.jinja_template import MAX_RENDER_S

NUM_PROCESSES = 2
MAX_MEMORY_BYTES = 768 << 20
"""The most memory of a process: the interpreter takes about 100 MB of it."""
FIELD = "chat_template"
PROCESSES = BoundedProcesses(
    "pipelines.nodes.text.templates.rendering", NUM_PROCESSES, MAX_MEMORY_BYTES, "render templates"
)


class RequestTemplate:
    """The template of one request, with MAX_RENDER_S of processor time for all that it renders."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._source = source
        self._special_tokens = dict(special_tokens)
        self._left_s = MAX_RENDER_S

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """Renders as `Template.render` does.  Raises RequestError for all that the template does wrong."""
        arguments = {
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
            "kwargs": dict(kwargs),
        }
        job = {"source": self._source, "special_tokens": self._special_tokens, "arguments": arguments}
        result = self._outcome(job)
        if "error" in result:
            raise RequestError(f"`{FIELD}`: {result['error']}", FIELD)
        return result["text"]

    def _outcome(self, job: Any) -> dict[str, str]:
        try:
            outcome = PROCESSES.outcome(job, max(self._left_s, 1e-3))
        except OutOfTime:
            return {"error": str(OutOfTime(MAX_RENDER_S))}
        except OutOfBounds as error:
            return {"error": str(error)}
        self._left_s -= outcome.took_s
        found: dict[str, str] = outcome.value
        return found
