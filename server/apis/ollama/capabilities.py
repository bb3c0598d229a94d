"""What a model can do, in Ollama's words."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type

BY_TASK = {"chat": ("completion", "chat"), "completion": ("completion",), "embed": ("embedding",)}
"""Task of a graph → what models of it can do.  Ollama lists no `chat`; `listed` leaves it out."""


def capabilities(pipeline: Pipeline) -> list[str]:
    """What a loaded model can do."""
    return [*BY_TASK.get(pipeline.task, ()), *_of_nodes(pipeline)]


def _of_nodes(pipeline: Pipeline) -> Iterator[str]:
    parsers = [node.config for node in of_type(pipeline, "parse_reply")]
    if any(config.tools for config in parsers):
        yield "tools"
    if any(config.reasoning for config in parsers):
        yield "thinking"
    if any(node.gaps.form for node in of_type(pipeline, "tokenize")):
        yield "insert"
    if any(of_type(pipeline, "images")):
        yield "vision"
    if any(of_type(pipeline, "audio")):
        yield "audio"


def listed(pipeline: Pipeline | None, task: str | None) -> list[str]:
    """What lists show; of a model that is not loaded, what its task says."""
    known = BY_TASK.get(task or "", ()) if pipeline is None else capabilities(pipeline)
    return [name for name in known if name != "chat"]
