"""A request that was taken → its sequences, grouped by prompt: those that begin together and share it.

Knows requests and sequences; checks nothing, and knows nothing of queues, rows or blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from pipelines.host.engine.beam.beam_search import start_search
from pipelines.host.engine.kv_cache.prefix_digests import root
from pipelines.host.engine.prompt_scoring import PromptScores
from pipelines.host.engine.repetition import watch_repetition
from pipelines.host.engine.sequence import Sequence
from pipelines.host.engine.submission_checks import Limits
from pipelines.host.sampling.guide import GuideMaker
from pipelines.wire.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Arrival:
    """`n` choices for each prompt.  Of a search these are its best, and its sequences the beams."""

    key: Hashable
    prompts: list[list[int]]
    params: SamplingParams
    n: int
    cache_salt: str
    guide: GuideMaker | None
    eos_token_ids: frozenset[int]

    def groups(self, limits: Limits, arrivals: Iterator[int]) -> list[list[Sequence]]:
        """For each prompt its leader and then the followers; every sequence has a guide of its own."""
        beams = self.params.beams
        width = self.n if beams is None else beams.width
        sequences = [
            self._sequence(number, self.prompts[number // width], limits, next(arrivals))
            for number in range(len(self.prompts) * width)
        ]
        groups = [sequences[first : first + width] for first in range(0, len(sequences), width)]
        for place, group in enumerate(groups):
            if beams is not None:
                start_search(group, beams, self._choices(place))
            _join(group)
            _share_scores(group, limits.vocab_size)
        return groups

    def _choices(self, place: int) -> Iterable[int]:
        return range(place * self.n, (place + 1) * self.n)

    def _sequence(self, number: int, prompt: list[int], limits: Limits, arrival: int) -> Sequence:
        params, guide = self.params, self.guide if self.params.beams is None else None
        return Sequence(
            key=self.key,
            choice=number,
            token_ids=array("q", prompt),
            num_prompt=len(prompt),
            params=params,
            eos_token_ids=frozenset() if params.ignore_eos else self.eos_token_ids,
            stop_token_ids=frozenset(params.stop_token_ids),
            max_length=min(len(prompt) + params.max_tokens, limits.max_context),
            arrival=arrival,
            root=root(self.cache_salt),
            repetition=watch_repetition(params),
            guide=None if guide is None else guide(),  # beams have none: one that restricts was refused
        )


def _join(group: list[Sequence]) -> None:
    leader, *followers = group
    leader.followers = followers
    for follower in followers:
        follower.leader = leader


def _share_scores(group: list[Sequence], vocab_size: int) -> None:
    """One collection of scores for all choices of a prompt, when the request wants them."""
    wanted = group[0].params.prompt_logprobs
    if wanted is not None:
        scores = PromptScores(group[0].num_prompt - 1, min(wanted, vocab_size))
        for member in group:
            member.scores = scores
