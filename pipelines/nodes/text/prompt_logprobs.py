"""Log-probabilities of prompts as text: made once for all choices of a prompt.

Knows nothing of HTTP or of how they were computed.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.values import TextLogprob, TokenLogprobs

Describe = Callable[[int, TokenLogprobs], TextLogprob]
TellPrompt = Callable[[list[TokenLogprobs], Describe], list[TextLogprob]]


class PromptTexts:
    """What a call's choices tell of their prompts; choice `i * n + k` is the k-th of prompt i."""

    def __init__(self, prompts: list[list[int]], n: int) -> None:
        self._prompts = prompts
        self._n = n
        self._told: dict[int, list[TextLogprob]] = {}

    def tell(self, choice: int, scores: list[TokenLogprobs], describe: Describe) -> list[TextLogprob]:
        """One entry for each token of the choice's prompt but the first."""
        number = choice // self._n
        if number not in self._told:
            pairs = zip(self._prompts[number][1:], scores, strict=True)
            self._told[number] = [describe(token_id, logprobs) for token_id, logprobs in pairs]
        return self._told[number]
