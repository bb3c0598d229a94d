"""The body of completions.  Does not depend on HTTP or on replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import NumLogprobs, NumTokensOrNone
from pipelines.requests.fields.known_fields import REFUSED, REFUSED_COMPLETION, Refused
from pipelines.requests.generation.generation import BaseGenerationRequest
from pipelines.requests.generation.prompts import read_gaps, read_ids, read_prompts
from pipelines.values.node_values import Prompt

DEFAULT_MAX_TOKENS = 16
MAX_TOTAL_CHOICES = 1024


class CompletionRequest(BaseGenerationRequest):
    """The body of completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COMPLETION
    default_max_tokens: ClassVar[int | None] = DEFAULT_MAX_TOKENS

    prompt: Any = None
    suffix: StrictStr | None = None
    max_tokens: NumTokensOrNone | None = None
    logprobs: NumLogprobs | None = None
    add_special_tokens: bool | None = None

    @property
    def only_prompt(self) -> bool:
        """Whether the reply is the echoed prompt alone (`max_tokens` is 0)."""
        return self.max_tokens == 0

    @property
    def num_tokens(self) -> int | None:
        return 1 if self.only_prompt else self.max_tokens

    def alternatives(self) -> int | None:
        return 0 if self.picks_best and self.logprobs is None else self.logprobs

    def scores_prompt(self) -> int | None:
        """`echo` with `logprobs` returns those of the prompt too."""
        if self.prompt_logprobs is None and self.echo:
            return self.logprobs
        return self.prompt_logprobs

    def own(self) -> dict[str, Any]:
        prompts = self._prompts()
        if len(prompts) * self.num_choices > MAX_TOTAL_CHOICES:
            raise RequestError(
                f"{len(prompts)} prompts with n={self.num_choices} are more than {MAX_TOTAL_CHOICES} choices",
                field="n" if len(prompts) <= MAX_TOTAL_CHOICES else "prompt",
            )
        return {"prompts": prompts, "parse_reasoning": False}

    def _prompts(self) -> list[Prompt]:
        if self.prompt_token_ids is not None:
            return [Prompt(ids=ids) for ids in read_ids(self.prompt_token_ids, "prompt_token_ids")]
        if self.suffix:
            return read_gaps(self.prompt, self.suffix, self.add_special_tokens is not False)
        return read_prompts(self.prompt, self.add_special_tokens is not False)

    def check(self, max_context: int) -> None:
        super().check(max_context)
        if self.only_prompt and not self.echo:
            raise RequestError("max_tokens must be at least 1, got 0.", field="max_tokens")
        self._check_suffix()
        if self.only_prompt and self.logprob_token_ids:
            raise RequestError(
                "`logprob_token_ids` are those of generated tokens; max_tokens is 0",
                field="logprob_token_ids",
            )

    def _check_suffix(self) -> None:
        """Raise RequestError beside fields that say what a prompt is, or how it is cut."""
        for name in ("prompt_token_ids", "truncate_prompt_tokens", "echo", "prompt_logprobs"):
            if self.suffix and getattr(self, name) not in (None, False):
                raise RequestError(f"`{name}` is not supported beside `suffix`; leave it out", field=name)
