"""Log-probabilities of prompts as text, for all choices of a prompt.

Does not depend on HTTP or on how they were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from pipelines.values.reply_values import TextLogprob
from pipelines.values.stream_values import StreamChoice
from pipelines.wire.logprobs import TokenLogprobs

Describe = Callable[[int, TokenLogprobs], TextLogprob]
DescribePrompt = Callable[[Sequence[TokenLogprobs], Describe], Sequence[TextLogprob]]


class DescribedPrompt(Sequence[TextLogprob]):
    """One entry for each token of a prompt but the first, made whenever it is read: a prompt may have many
    thousands of scores with alternatives, and the event loop, on which they arrive, reads none of them.
    """

    def __init__(self, ids: Sequence[int], scores: Sequence[TokenLogprobs], describe: Describe) -> None:
        self._ids = ids[1:]
        self._scores = scores
        self._describe = describe

    def __len__(self) -> int:
        return len(self._scores)

    def __iter__(self) -> Iterator[TextLogprob]:
        return map(self._describe, self._ids, self._scores)

    @overload
    def __getitem__(self, place: int) -> TextLogprob: ...

    @overload
    def __getitem__(self, place: slice) -> list[TextLogprob]: ...

    def __getitem__(self, place: int | slice) -> TextLogprob | list[TextLogprob]:
        if isinstance(place, slice):
            return [*map(self._describe, self._ids[place], self._scores[place])]
        return self._describe(self._ids[place], self._scores[place])


class PromptTexts:
    """The log-probabilities of a call's prompts by their indices, each for all choices of its prompt."""

    def __init__(self) -> None:
        self._scores: dict[int, DescribedPrompt] = {}

    def describe(
        self, choice: StreamChoice, scores: Sequence[TokenLogprobs], describe: Describe
    ) -> Sequence[TextLogprob]:
        """One entry for each token of the choice's prompt but the first."""
        prompt = choice.prompt_index
        if prompt not in self._scores:
            self._scores[prompt] = DescribedPrompt(choice.prompt.ids, scores, describe)
        return self._scores[prompt]
