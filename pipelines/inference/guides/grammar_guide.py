"""The guide that restricts a sequence to a grammar, with llguidance's matcher."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from llguidance import LLMatcher

from pipelines.inference.contracts.guide import GuideError, MaskTiming
from pipelines.inference.guides.token_tables import TokenTable


class GrammarGuide(MaskTiming):
    """Allows the tokens that the grammar allows next; end tokens only where the text is complete.

    `forces`: `append` returns the tokens that must follow, an end token after a text that cannot go on;
    otherwise the masks allow only these.
    """

    def __init__(self, matcher: LLMatcher, tokens: TokenTable, forces: bool, ignores_end: bool) -> None:
        self.matcher = matcher
        self.tokens = tokens
        self.forces = forces
        self.ignores_end = ignores_end
        self.finished = False

    def restricts(self) -> bool:
        return True

    def fill(self, bits: Any) -> None:
        """`bits` is contiguous.  With `ignores_end`, end tokens are allowed only when nothing else is.

        Where nothing else is, the mask allows the one that would be forced: log-probabilities change no ids.
        """
        if self.matcher.is_stopped():
            bits[:] = 0
            allow(bits, self.tokens.end_id)
            return
        self.matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        if self.ignores_end:
            others = bits & ~self.tokens.end_bits
            if others.any():
                bits[:] = others

    def copy(self) -> GrammarGuide:
        """Cheap: the compiled grammar is shared, only the position in it is copied."""
        other = copy(self)
        other.matcher = self.matcher.deep_copy()
        return other

    def allows(self, token_id: int) -> bool:
        return bool(self.matcher.validate_tokens([token_id]))

    def append(self, token_id: int) -> list[int]:
        if not self.matcher.consume_token(token_id) or self.matcher.is_error():
            raise fault(self.matcher)
        self.finished = token_id in self.tokens.end_ids and self.matcher.is_stopped()
        return self.forced()

    def forced(self) -> list[int]:
        """Take the tokens that must come next.  The library may offer some that do not fit."""
        if not self.forces or self.finished:
            return []
        ids = take_forced(self.matcher)
        self.finished = self.matcher.is_stopped()
        return [*ids, self.tokens.end_id] if self.finished else ids

    def take_text(self, text: bytes) -> list[int]:
        """Accept text that came with a token of something else; returns the tokens that must follow."""
        ids = self.tokens.tokenizer.tokenize_bytes(text) if text.strip() else []
        take(self.matcher, ids)
        return self.forced()


def take(matcher: LLMatcher, ids: list[int]) -> None:
    """Accept tokens.  Raises GuideError where the grammar does not, or has come to where nothing may follow
    though it is not complete: then the library allows an end token, and accepts it.
    """
    if (ids and not matcher.consume_tokens(ids)) or matcher.is_error():
        raise fault(matcher)


def fault(matcher: LLMatcher) -> GuideError:
    """Why a matcher did not accept a token."""
    message = " ".join(matcher.get_error().split("<non-verbose/>")[0].split())
    return GuideError(f"the grammar could not be followed: {message[:300]}")


def take_forced(matcher: LLMatcher) -> list[int]:
    """Accept and return the tokens that must come next.  The library may offer some that do not fit."""
    ids = [] if matcher.is_stopped() else matcher.compute_ff_tokens()
    ids = ids[: matcher.validate_tokens(ids)]
    take(matcher, ids)
    return ids


def allow(bits: Any, token_id: int) -> None:
    """Set the bit of a token in a mask."""
    bits.view(np.uint32)[token_id // 32] |= np.uint32(1 << token_id % 32)
