"""The guide that holds tool calls in free text to the grammar of the declared tools."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher

from pipelines.inference.contracts.guide import GuideError, MaskTiming
from pipelines.inference.guides.grammar_guide import allow, take, take_forced
from pipelines.inference.guides.token_tables import TokenTable
from pipelines.wire.sampling_params import HeldCalls


@dataclass(frozen=True)
class CallRules:
    """`calls` for one model's tokens; `start` is a matcher of the grammar that is never advanced.

    `banned[n]` is None, or the mask of the tokens that would complete the trigger, of which `n` bytes are
    written, and then begin what is no call: a mark in text often shares a token with what follows it.
    """

    calls: HeldCalls
    trigger: bytes
    start: LLMatcher
    banned: list[Any]

    @staticmethod
    def of(calls: HeldCalls, start: LLMatcher, tokens: TokenTable) -> CallRules:
        trigger = calls.trigger.encode()
        banned: list[Any] = [None] * len(trigger)
        for written, token_id, rest in tokens.completing(trigger):
            ids = tokens.tokenizer.tokenize_bytes(rest)
            if start.validate_tokens(ids) < len(ids):
                if banned[written] is None:
                    banned[written] = tokens.no_bits()
                allow(banned[written], token_id)
        return CallRules(calls, trigger, start, banned)


class CallGuide(MaskTiming):
    """Restricts nothing until the output contains the mark that opens calls, then allows only a call.

    After the call the text is free again, or ends where one call is all that is allowed.  The mark is
    searched in the bytes of the tokens, so it may be one token, several, or parts of some.
    """

    def __init__(self, rules: CallRules, tokens: TokenTable, forces: bool) -> None:
        self.rules = rules
        self.tokens = tokens
        self.forces = forces
        self.finished = False
        self.restart()

    def restart(self) -> None:
        """Begin again, as before the first token."""
        self._written = 0  # bytes of the trigger at the end of the output
        self._call: LLMatcher | None = None
        self._over = False

    def restricts(self) -> bool:
        return self._call is not None or self._over or self.rules.banned[self._written] is not None

    def fill(self, bits: Any) -> None:
        if self._call is not None:
            self._call.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        elif self._over:
            bits[:] = 0
            allow(bits, self.tokens.end_id)
        else:
            bits[:] = ~self.rules.banned[self._written]

    def copy(self) -> CallGuide:
        other = copy(self)
        other._call = None if self._call is None else self._call.deep_copy()
        return other

    def append(self, token_id: int) -> list[int]:
        if self._over:
            self.finished = token_id in self.tokens.end_ids
            if not self.finished:
                raise GuideError("nothing may follow the one tool call that was allowed")
            return []
        if self._call is None:
            return self.take_text(self.tokens.bytes_of(token_id))
        take(self._call, [token_id])
        return self._forced(self._call)

    def take_text(self, text: bytes) -> list[int]:
        """Accept text outside of calls, which may open one; returns the tokens that must follow."""
        trigger = self.rules.trigger
        _, opened, rest = (trigger[: self._written] + text).partition(trigger)
        if not opened:
            self._written = _overlap(trigger[: self._written] + text, trigger)
            return []
        self._written = 0
        self._call = self.rules.start.deep_copy()
        take(self._call, self.tokens.tokenizer.tokenize_bytes(rest) if rest else [])
        return self._forced(self._call)

    def _forced(self, call: LLMatcher) -> list[int]:
        ids = take_forced(call) if self.forces else []
        if not call.is_stopped():
            return ids
        self._call, self._over = None, self.rules.calls.once
        self.finished = self._over and self.forces
        return [*ids, self.tokens.end_id] if self.finished else ids


def _overlap(text: bytes, trigger: bytes) -> int:
    """Length of the longest proper beginning of `trigger` that ends `text`."""
    lengths = range(min(len(text), len(trigger) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(trigger[:length])), 0)
