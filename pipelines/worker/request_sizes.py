"""How much text a request has, by which it is prepared on the event loop or in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput, PoolingInput, PromptInput, SpeakInput, SpeechInput

LONG_CHARS = 16 << 10
"""A request with more text is prepared in a thread."""


def is_long(request: Any) -> bool:
    """Whether a request is prepared in a thread: sound is, and a text that is spoken."""
    return isinstance(request, SpeechInput | SpeakInput) or num_chars(request) > LONG_CHARS


def num_chars(request: Any) -> int:
    """Characters of the texts of a request, and its token ids."""
    if not isinstance(request, PromptInput):
        return 0
    return sum(map(len, _texts(request))) + _label_chars(request)


def _label_chars(request: PromptInput) -> int:
    """Characters of the labels that a model is to find, which stand before each text."""
    wanted = request.wanted if isinstance(request, PoolingInput) else None
    if wanted is None:
        return 0
    num_chars = sum(len(prompt) for labels in wanted.sets for prompt in labels.prompts)
    return num_chars if wanted.of_each else num_chars * len(request.prompts)


def _texts(request: PromptInput) -> Iterator[str | list[int]]:
    for message in request.messages or ():
        content = message.get("content") or ""
        yield from [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
    pairs = request.pairs if isinstance(request, PoolingInput) else []
    if isinstance(request, GenerationInput):
        yield request.expected
    for prompt in (*request.prompts, *(side for pair in pairs for side in pair)):
        yield _written(prompt)


def _written(prompt: Prompt) -> str | list[int]:
    return prompt.text or prompt.ids or []
