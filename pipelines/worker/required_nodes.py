"""Checks that the nodes of a graph can serve a generation request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.nodes import VOCABULARY
from pipelines.nodes.naming import nodes_of
from pipelines.worker.pipeline import Pipeline


def check_chat(pipeline: Pipeline, calls_tools: bool) -> None:
    """Raise RequestError when the graph has no chat template, or cannot parse requested tool calls."""
    if pipeline.task != "chat":
        raise RequestError(
            f"The model `{pipeline.name}` does not chat: its graph has no chat_template node; "
            "allowed: completions",
            field="model",
        )
    if calls_tools and not any(node.config.tools for node in of_type(pipeline, "parse_reply")):
        raise RequestError(
            f"The model `{pipeline.name}` calls no tools: its graph has no parse_reply node with a `tools` "
            "setting; leave `tools` out or set `tool_choice` to none",
            field="tools",
        )


def check_completion(pipeline: Pipeline) -> None:
    """Raise RequestError when the graph does not generate text."""
    if pipeline.task not in ("chat", "completion"):
        raise RequestError(
            f"The model `{pipeline.name}` does not complete text: its task is {pipeline.task}", field="model"
        )


def check_one_prompt(pipeline: Pipeline) -> None:
    """Raise RequestError for a graph whose lines ask other models: their prompts are composed while it runs,
    from replies among other things, and generation from tokens alone would leave its other lines out.
    """
    if pipeline.is_composed:
        names = ", ".join(f"`{name}`" for name in pipeline.named_models)
        raise RequestError(
            f"The model `{pipeline.name}` asks others, by prompts that are made while it runs, so it has "
            f"none to render; render those of the models themselves: {names}",
            field="model",
        )


def check_echo(pipeline: Pipeline, echoes: bool) -> None:
    """Raise RequestError when the output does not continue the prompt, which an encoder reads."""
    if echoes and any(of_type(pipeline, "decoder_start")):
        raise RequestError(
            f"The model `{pipeline.name}` reads the prompt with an encoder and does not continue it; leave "
            "`echo` out",
            field="echo",
        )


def gives_kind(pipeline: Pipeline, kind: str) -> bool:
    """Whether the model gives vectors of this kind: dense, sparse or colbert."""
    return any(kind in node.results.kinds.values() for node in of_type(pipeline, "batcher"))


def of_type(pipeline: Pipeline, name: str) -> Iterator[Any]:
    """The request nodes of the type that graphs call `name`, those of graphs inside the graph too."""
    node_type = VOCABULARY[name]
    return (node for node in nodes_of(pipeline) if isinstance(node, node_type))
