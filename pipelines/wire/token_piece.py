"""What one step gave one choice: created by the engine, carried by every stage up to the HTTP reply.

Does not depend on engines, text or HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

Logprob = TypeVar("Logprob")


class Speculation(msgspec.Struct, array_like=True):
    """Totals of a choice so far: `num_accepted` of its `num_drafted` draft tokens were accepted."""

    num_drafted: int
    num_accepted: int


class PieceLogprobs(msgspec.Struct, Generic[Logprob], array_like=True):
    """The log-probabilities of one piece, as far as the request asked for them.

    `tokens` has one entry per token id of the piece.  `prompt`, in the first piece of a choice only, has one
    entry per prompt token but the first.  `drafted[i]` is the draft model's own for token i, None where that
    token was not drafted; it may be shorter than `tokens`.
    """

    tokens: list[Logprob] = []
    prompt: Sequence[Logprob] | None = None
    drafted: list[Logprob | None] = []

    def split(self, count: int) -> PieceLogprobs[Logprob]:
        """Take those of the first `count` tokens out, and those of the prompt."""
        first = PieceLogprobs(self.tokens[:count], self.prompt, self.drafted[:count])
        self.tokens, self.prompt, self.drafted = self.tokens[count:], None, self.drafted[count:]
        return first


class ExpertChoices(msgspec.Struct, array_like=True):
    """Which experts consecutive tokens of a sequence chose, prompt included: int16[tokens, layers, used] in
    pieces, one after another.
    """

    layers: int
    used: int
    pieces: list[bytes]


class TokenPiece(msgspec.Struct, Generic[Logprob], array_like=True):
    """Consecutive output tokens of one choice, the end token included.

    `num_tokens` counts them, also where a reply leaves some out of `token_ids`.  `finish` is None while more
    follows, else "stop", "length", "repetition", "abort", "error", "content_filter" where a guard ended
    it, or "tool_calls", which a parser of replies makes of "stop"; with "stop", an engine's last token is an
    end token, which is no text unless the request asks for it.
    `stop_reason` is the stop token id or stop string of the request that ended the choice, if one did.
    `num_cached` prompt tokens were found in the prefix cache.  `prefill_s`, in the first piece only, is the
    time from the admission of the prompt to its first token, in seconds.  `speculation` is None until a token
    was drafted, `logprobs` where the request asked for none.  `experts` are those of the tokens that were
    computed since the piece before; the last token has none, since nothing is computed from it.

    A piece and its lists belong to the stage that holds it, which may change them in place.
    """

    token_ids: list[int]
    num_tokens: int
    finish: str | None = None
    stop_reason: str | int | None = None
    num_cached: int = 0
    prefill_s: float | None = None
    speculation: Speculation | None = None
    logprobs: PieceLogprobs[Logprob] | None = None
    experts: ExpertChoices | None = None

    def extend(self, later: TokenPiece[Logprob]) -> None:
        """Append the next piece of the same choice, in place.

        What belongs to a first piece (`num_cached`, `prefill_s`, scores of the prompt) stays as it is; an
        empty piece gets `prefill_s` from the first that it is extended by.
        """
        if self.prefill_s is None:
            self.prefill_s = later.prefill_s
        if later.logprobs is not None:
            self._extend_logprobs(later.logprobs)
        if later.speculation is not None:
            self.speculation = later.speculation
        if self.experts is None:
            self.experts = later.experts
        elif later.experts is not None:
            self.experts.pieces += later.experts.pieces
        self.token_ids += later.token_ids
        self.num_tokens += later.num_tokens
        self.finish, self.stop_reason = later.finish, later.stop_reason

    def split(self, count: int) -> TokenPiece[Logprob]:
        """Take the first `count` tokens, fewer than there are, out of this piece; they are a piece that is
        what this one was when it is extended by the rest.
        """
        first = TokenPiece(
            self.token_ids[:count],
            count,
            num_cached=self.num_cached,
            prefill_s=self.prefill_s,
            logprobs=None if self.logprobs is None else self.logprobs.split(count),
            experts=self.experts,
        )
        self.token_ids, self.num_tokens = self.token_ids[count:], self.num_tokens - count
        self.num_cached, self.prefill_s, self.experts = 0, None, None
        return first

    def _extend_logprobs(self, later: PieceLogprobs[Logprob]) -> None:
        """Must run before `token_ids` grows: the draft's log-probabilities stay with their tokens."""
        own = self.logprobs
        if own is None:
            own = self.logprobs = PieceLogprobs([])
        if later.drafted:
            own.drafted += [None] * (len(self.token_ids) - len(own.drafted))
            own.drafted += later.drafted
        own.tokens += later.tokens
        if own.prompt is None:
            own.prompt = later.prompt
