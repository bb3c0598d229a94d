"""The prompts of a call for replies that echo them: token ids and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.nodes.naming import nodes_of
from pipelines.nodes.text.replies.incremental_decoder import IncrementalDecoder
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class PromptEcho:
    """One prompt as it was computed; `first` is the text of its first token alone."""

    ids: list[int]
    text: str
    first: str


def prompt_echoes(pipeline: Pipeline, call: Call) -> list[PromptEcho]:
    """The text of a prompt is the client's own, unless the prompt was truncated; ids are decoded.

    Raises RequestError for a composed graph.
    """
    if call.is_composed:
        raise RequestError(
            f"{pipeline.name} asks several models: its reply has no prompt to show; leave `echo`, "
            "`return_token_ids` and `return_prompt_text` out"
        )
    tokenizer = next((node.tokenizer for node in nodes_of(pipeline) if hasattr(node, "tokenizer")), None)
    if tokenizer is None:
        raise TypeError(f"the graph of {pipeline.name} generates text without a tokenizer")
    decoder = IncrementalDecoder(tokenizer, skip_special_tokens=False)
    texts = _own_texts(call) or [tokenizer.decode(ids, skip_special_tokens=False) for ids in call.prompt_ids]
    return [
        PromptEcho(ids, text, decoder.token_text(ids[0])[0])
        for ids, text in zip(call.prompt_ids, texts, strict=True)
    ]


def _own_texts(call: Call) -> list[str] | None:
    """The texts of the request, where all prompts have one and nothing was truncated or added."""
    request: Any = call.request
    if request.truncate_prompt_tokens is not None or request.completion_ids:
        return None
    if request.messages is not None:
        return [call.prompt_text]
    texts = [prompt.text for prompt in request.prompts]
    has_gap = any(prompt.gap for prompt in request.prompts)
    return None if None in texts or has_gap else texts
