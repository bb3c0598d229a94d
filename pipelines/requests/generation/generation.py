"""The body of a generation request: checked fields → `tasks.GenerationInput`."""

from __future__ import annotations

from typing import Any

from pipelines.requests.generation import checks
from pipelines.requests.generation.generation_fields import GenerationFields
from pipelines.requests.generation.image_parts import WithoutMedia
from pipelines.requests.generation.sampling import sampling
from pipelines.values.tasks import GenerationInput


class BaseGenerationRequest(WithoutMedia, GenerationFields):
    """What chat/completions and completions do alike with their fields."""

    def generation(self, max_context: int) -> GenerationInput:
        """The input of a pipeline.  Raises RequestError for fields that exclude each other."""
        self.check(max_context)
        return GenerationInput(
            n=self.num_choices,
            sampling=sampling(self),
            default_max_tokens=self.most_tokens,
            stop=self.stop or [],
            include_stop_str_in_output=bool(self.include_stop_str_in_output),
            bad_words=self.bad_words or [],
            sequence_breakers=self.breakers,
            skip_special_tokens=self.skip_special_tokens is not False,
            cache_salt=self.cache_salt or "",
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncate_left=self.truncation_side != "right",
            constraint=self.constraint(),
            thinking_budget=self.thinking_budget(),
            streams=bool(self.stream),
            **self.own(),
        )

    def own(self) -> dict[str, Any]:
        """The fields of `GenerationInput` that only this endpoint sets."""
        raise NotImplementedError

    def check(self, max_context: int) -> None:
        """Raise RequestError for fields that are valid alone but not together."""
        for rule in checks.RULES:
            rule(self, max_context)
