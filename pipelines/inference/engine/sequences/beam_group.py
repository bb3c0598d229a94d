"""The arithmetic of beam search: candidates of each open beam in, the next open beams out."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import Beams


class Beam(NamedTuple):
    """An open beam, as it was grown from the `parent`-th of those before it."""

    parent: int
    token_id: int
    score: float  # sum of the log-probabilities of its tokens


class Ending(NamedTuple):
    """The whole result of a choice, sent once: an Output's fields in their order."""

    choice: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs]
    finish: str
    stop_token_id: int | None


class LogprobChain(NamedTuple):
    """The log-probabilities of a beam's tokens; beams of one parent share the chain before."""

    before: LogprobChain | None
    last: TokenLogprobs


class Hypothesis(NamedTuple):
    """A finished text; `end` is its last token if that is an end token."""

    token_ids: array[int]
    score: float  # divided by length ** length_penalty
    end: int | None
    chain: LogprobChain | None

    @property
    def logprobs(self) -> list[TokenLogprobs]:
        """One for each of `token_ids`, or [] when not requested."""
        found, chain = list[TokenLogprobs](), self.chain
        while chain is not None:
            found.append(chain.last)
            chain = chain.before
        return found[::-1]


@dataclass(slots=True)
class BeamGroup:
    """The search over the continuations of one prompt, as `generate` of transformers 4.57 does it.

    It starts with one open beam; after each `advance` there are `width`, best first, all of `length`
    tokens, until it is over.  `finished` holds at most `width`, best first; all `width` of them then.
    """

    beams: Beams
    end_token_ids: frozenset[int]
    max_tokens: int
    num_logprobs: int | None = None  # alternatives to each token of an answer; None: no log-probabilities
    length: int = 0
    scores: list[float] = field(default_factory=lambda: [0.0])  # of the open beams
    chains: list[LogprobChain | None] = field(default_factory=lambda: [None])
    finished: list[Hypothesis] = field(default_factory=list)

    def advance(self, contexts: Many[array[int]], tops: Many[TokenLogprobs]) -> list[Beam]:
        """The next open beams, [] when the search is over.

        `contexts[i]` ends with the tokens of open beam i; `tops[i]` are its `num_candidates` likeliest
        tokens or more.  Ties go to the better beam, then to the lower id.
        """
        best = self._candidates(tops)
        width, ends, length = self.beams.width, self.end_token_ids, self.length
        self.length += 1
        last = self.length == self.max_tokens
        for beam in best[:width]:  # one that is no more than a reserve may not finish
            if last or beam.token_id in ends:
                context = contexts[beam.parent]
                self._finish(context[len(context) - length :], beam, tops)
        grown = [beam for beam in best if beam.token_id not in ends][:width]
        self.scores = [beam.score for beam in grown]
        self.chains = [self._chain(beam, tops) for beam in grown]
        return [] if last or self._is_decided() else grown

    def _candidates(self, tops: Many[TokenLogprobs]) -> list[Beam]:
        count = num_candidates(self.beams.width, len(self.end_token_ids))
        grown = [
            Beam(parent, token_id, score + logprob)
            for parent, (score, top) in enumerate(zip(self.scores, tops, strict=True))
            for token_id, logprob in zip(top.top_ids[:count], top.top_logprobs[:count], strict=True)
        ]
        return sorted(grown, key=lambda beam: (-beam.score, beam.parent, beam.token_id))

    def _finish(self, token_ids: array[int], beam: Beam, tops: Many[TokenLogprobs]) -> None:
        token_ids.append(beam.token_id)
        end = beam.token_id if beam.token_id in self.end_token_ids else None
        score = self._normalised(beam.score, self.length)
        self.finished.append(Hypothesis(token_ids, score, end, self._chain(beam, tops)))
        self.finished.sort(key=lambda one: -one.score)
        del self.finished[self.beams.width :]

    def _chain(self, beam: Beam, tops: Many[TokenLogprobs]) -> LogprobChain | None:
        count = self.num_logprobs
        if count is None:
            return None
        ids, logprobs = tops[beam.parent].top_ids, tops[beam.parent].top_logprobs
        place = ids.index(beam.token_id)
        found = TokenLogprobs(logprobs[place], place + 1, ids[:count], logprobs[:count])
        return LogprobChain(self.chains[beam.parent], found)

    def _is_decided(self) -> bool:
        """Whether no open beam is expected to become better than the worst that is finished.

        The expectation is that of transformers, which is exact for "never" and a draft token otherwise.
        """
        if len(self.finished) < self.beams.width:
            return False
        if self.beams.early_stopping is True:
            return True
        longest = self.beams.early_stopping == "never" and self.beams.length_penalty > 0
        best = self._normalised(self.scores[0], self.max_tokens if longest else self.length)
        return best <= self.finished[-1].score

    def _normalised(self, score: float, length: int) -> float:
        return score / math.pow(length, self.beams.length_penalty)


def num_candidates(width: int, num_ends: int) -> int:
    """How many tokens of an open beam can matter: `width` that may go on, and the end tokens among them."""
    return width + num_ends
