"""The body of completions.  Knows nothing of HTTP or of how a reply looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import StrictBool

from pipelines.errors import RequestError
from server.generation.field_types import NumLogprobs
from server.generation.fields import REFUSED, REFUSED_COMPLETION, Refused
from server.generation.prompts import read_prompts
from server.generation.requests import GenerationRequest

DEFAULT_MAX_TOKENS = 16
MAX_TOTAL_CHOICES = 1024


class CompletionRequest(GenerationRequest):
    """The body of completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COMPLETION
    default_max_tokens: ClassVar[int | None] = DEFAULT_MAX_TOKENS

    prompt: Any = None
    logprobs: NumLogprobs | None = None
    add_special_tokens: StrictBool | None = None

    def alternatives(self) -> int | None:
        return self.logprobs

    def own(self) -> dict[str, Any]:
        prompts = read_prompts(self.prompt, self.add_special_tokens is not False)
        if len(prompts) * self.num_choices > MAX_TOTAL_CHOICES:
            raise RequestError(
                f"{len(prompts)} prompts with n={self.num_choices} are more than {MAX_TOTAL_CHOICES} choices",
                field="n" if len(prompts) <= MAX_TOTAL_CHOICES else "prompt",
            )
        return {"prompts": prompts}
