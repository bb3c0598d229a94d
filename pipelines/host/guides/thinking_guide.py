"""A sequence that thinks before it answers, for so many tokens at most; a grammar holds for the answer alone.

Knows the marks of reasoning; knows nothing of chat templates or engines.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from pipelines.host.guides.grammar_guide import GrammarGuide
from pipelines.host.guides.token_tables import TokenTable
from pipelines.host.sampling.guide import GuideError
from pipelines.wire.sampling_params import Thinking


class ThinkingGuide:
    """Before it thinks → inside → after it, from where the grammar, if there is one, holds.

    The marks are looked for in the bytes of the tokens, so they may be one token, several, or parts of some.
    `_start` are the ids of the opening mark that have not come while it may still come; `_closing` those of
    the closing mark that must come now.  Both are empty inside, until the budget is spent.
    """

    def __init__(
        self, thinking: Thinking, answer: GrammarGuide | None, tokens: TokenTable, forces: bool
    ) -> None:
        self.thinking = thinking
        self.answer = answer
        self.tokens = tokens
        self.forces = forces
        self._end = thinking.end.encode()
        self._tail = b""  # the last bytes inside, shorter than the mark that ends it
        self._said = b""  # before it: the beginning of the output
        self._num_inside = 0
        self._start: list[int] = []
        self._closing: list[int] = []
        self._phase = "before"
        self._answers = answer is not None  # before it: whether the output so far may be the answer's
        if thinking.opened:
            self._begin()
        elif answer is not None:
            self._start = tokens.spell(thinking.start)

    def restricts(self) -> bool:
        if self._phase == "inside":
            return bool(self._closing) or self.answer is not None
        return self.answer is not None

    def fill(self, bits: Any) -> None:
        if self._phase == "inside":
            self._fill_inside(bits)
            return
        assert self.answer is not None
        bits[:] = 0
        if self._answers:
            self.answer.fill(bits)
        if self._start:
            _allow(bits, self._start[0])

    def _fill_inside(self, bits: Any) -> None:
        """With an answer to come, a sequence does not end in the middle of its thoughts."""
        if self._closing:
            bits[:] = 0
            _allow(bits, self._closing[0])
        else:
            bits[:] = ~self.tokens.end_bits

    def copy(self) -> ThinkingGuide:
        other = copy(self)
        other.answer = None if self.answer is None else self.answer.copy()
        return other

    def append(self, token_id: int) -> list[int]:
        if self._phase == "inside":
            return self._append_inside(token_id)
        if self._phase == "before":
            return self._append_free(token_id) if self.answer is None else self._append_either(token_id)
        return [] if self.answer is None else self.answer.append(token_id)

    def _append_free(self, token_id: int) -> list[int]:
        """Anything may come; thinking begins if the output begins with its mark, space aside."""
        self._said += self.tokens.bytes_of(token_id)
        said, mark = self._said.lstrip(), self.thinking.start.encode()
        if said.startswith(mark):
            return self._begin() + self._look(said[len(mark) :])
        if not mark.startswith(said):
            self._phase = "after"
        return []

    def _append_either(self, token_id: int) -> list[int]:
        """The mark or the answer: a token that belongs to both decides nothing yet."""
        assert self.answer is not None
        opens = self._start[:1] == [token_id]
        if opens and self._start[1:]:
            self._answers = self._answers and self.answer.allows(token_id)
            self._start = self._start[1:]
            if self._answers:
                self._answers = bool(self.answer.matcher.consume_token(token_id))
            return []
        if opens:
            self.answer.matcher.reset()
            self._answers = True
            return self._begin()
        self._start = []
        self._phase = "after"
        if not self._answers:
            raise GuideError("the output began like the mark of its reasoning, but went on otherwise")
        return self.answer.append(token_id)

    def _begin(self) -> list[int]:
        self._phase, self._start = "inside", []
        return self._spent()

    def _append_inside(self, token_id: int) -> list[int]:
        if self._closing:
            self._closing = self._closing[1:]
            return [] if self._closing else self._finish(b"")
        self._num_inside += 1
        return self._look(self.tokens.bytes_of(token_id)) or self._spent()

    def _look(self, more: bytes) -> list[int]:
        """Read bytes from inside; what stands behind the closing mark belongs to the answer."""
        text = self._tail + more
        at = text.find(self._end)
        if at >= 0:
            return self._finish(text[at + len(self._end) :])
        self._tail = text[-len(self._end) + 1 :] if len(self._end) > 1 else b""
        return []

    def _finish(self, rest: bytes) -> list[int]:
        self._phase, self._tail = "after", b""
        if self.answer is None:
            return []
        ids = self.tokens.tokenizer.tokenize_bytes(rest) if rest.strip() else []
        if ids and not self.answer.matcher.consume_tokens(ids):
            raise GuideError("the token that ended the reasoning began an answer that is not allowed")
        return self.answer.forced()

    def _spent(self) -> list[int]:
        """Where the budget is spent: the rest of the closing mark, of which a part may have come."""
        budget = self.thinking.budget
        if self._phase != "inside" or budget is None or self._num_inside < budget:
            return []
        closing = self._missing()
        if not self.forces or self._num_inside == 0:  # the first token of all is asked for, not appended
            self._closing = closing
            return []
        return closing + self._finish(b"")

    def _missing(self) -> list[int]:
        for length in range(len(self._end) - 1, 0, -1):
            if self._tail.endswith(self._end[:length]):
                return self.tokens.tokenizer.tokenize_bytes(self._end[length:])
        return self.tokens.spell(self.thinking.end)

    @property
    def finished(self) -> bool:
        return self._phase == "after" and self.answer is not None and self.answer.finished


def _allow(bits: Any, token_id: int) -> None:
    bits.view(np.uint32)[token_id // 32] |= np.uint32(1 << token_id % 32)
