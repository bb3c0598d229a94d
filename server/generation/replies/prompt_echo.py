"""Prompts as a reply shows them: their ids and their text.  Knows nothing of requests or of replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.nodes.text.replies.incremental_decoder import Decoder
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.generation.requests.required_nodes import nodes


@dataclass(frozen=True, slots=True)
class PromptShown:
    """One prompt as it was computed; `first` is the text of its first token alone."""

    ids: list[int]
    text: str
    first: str


def prompts_shown(pipeline: Pipeline, call: Call) -> list[PromptShown]:
    """What a client wrote as text is shown as it wrote it, unless it was cut; ids are decoded."""
    tokenizer = next((node.tokenizer for node in nodes(pipeline) if hasattr(node, "tokenizer")), None)
    if tokenizer is None:
        raise TypeError(f"the graph of {pipeline.name} generates text without a tokenizer")
    decoder = Decoder(tokenizer, skip_special_tokens=False)
    texts = _written(call) or [tokenizer.decode(ids, skip_special_tokens=False) for ids in call.prompt_ids]
    return [
        PromptShown(ids, text, decoder.token_text(ids[0])[0])
        for ids, text in zip(call.prompt_ids, texts, strict=True)
    ]


def _written(call: Call) -> list[str] | None:
    """The prompts' own text, where all have one and nothing was cut off or added."""
    request: Any = call.request
    if request.truncate_prompt_tokens is not None or request.completion_ids:
        return None
    if request.messages is not None:
        return [call.prompt_text]
    texts = [prompt.text for prompt in request.prompts]
    return None if None in texts else texts
