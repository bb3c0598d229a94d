"""Log-probabilities of prompts as text: made once for all choices of a prompt.

Does not depend on HTTP or on how they were computed.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.values.reply_values import TextLogprob
from pipelines.values.stream_values import StreamChoice
from pipelines.wire.logprobs import TokenLogprobs

Describe = Callable[[int, TokenLogprobs], TextLogprob]
DescribePrompt = Callable[[list[TokenLogprobs], Describe], list[TextLogprob]]


class PromptTexts:
    """The log-probabilities of a call's prompts, by the index of the prompt."""

    def __init__(self) -> None:
        self._texts: dict[int, list[TextLogprob]] = {}

    def describe(
        self, choice: StreamChoice, scores: list[TokenLogprobs], describe: Describe
    ) -> list[TextLogprob]:
        """One entry for each token of the choice's prompt but the first."""
        prompt = choice.prompt_index
        if prompt not in self._texts:
            pairs = zip(choice.prompt.ids[1:], scores, strict=True)
            self._texts[prompt] = [describe(token_id, logprobs) for token_id, logprobs in pairs]
        return self._texts[prompt]
