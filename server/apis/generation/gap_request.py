"""The body of paths that fill the gap of a text, by Mistral's rules and DeepSeek's."""

from __future__ import annotations

from typing import ClassVar

from pipelines.base.errors import MissingField
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.values.node_values import Prompt


class GapRequest(CompletionRequest):
    """A completion whose length has no default limit; without a suffix the prompt is continued."""

    default_max_tokens: ClassVar[int | None] = None

    def _prompts(self) -> list[Prompt]:
        if self.prompt is None:
            raise MissingField("`prompt` is required", field="prompt")
        return super()._prompts()
