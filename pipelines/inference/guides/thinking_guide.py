"""The guide of a sequence that reasons before its reply.

It limits the tokens of the reasoning, and applies a grammar to the reply, or to the tool calls in it.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from pipelines.inference.contracts.guide import GuideError, MaskTiming
from pipelines.inference.guides.call_guide import CallGuide
from pipelines.inference.guides.grammar_guide import GrammarGuide, allow
from pipelines.inference.guides.token_tables import TokenTable
from pipelines.wire.sampling_params import Thinking


class ThinkingGuide(MaskTiming):
    """Phases: before the reasoning, inside it, after it.  The grammar, if there is one, applies from the
    third on; `held` is the reply where it must be of a grammar as a whole.

    The markers of the reasoning are searched in the bytes of the tokens, so a marker may be one token,
    several, or parts of some.  `_start`: the ids of the opening marker that are still missing, while it may
    still come.  `_closing`: those of the closing marker that must come now.  Inside, both are empty until the
    budget is spent.
    """

    def __init__(
        self, thinking: Thinking, reply: GrammarGuide | CallGuide | None, tokens: TokenTable, forces: bool
    ) -> None:
        self.thinking = thinking
        self.reply = reply
        self.held = reply if isinstance(reply, GrammarGuide) else None
        self.tokens = tokens
        self.forces = forces
        self._end = thinking.end.encode()
        self._tail = b""  # the last bytes inside, shorter than the marker that ends it
        self._output = b""  # before it: the beginning of the output
        self._num_inside = 0
        self._start: list[int] = []
        self._closing: list[int] = []
        self._phase = "before"
        self._may_be_reply = True  # before it: whether the output so far may be the reply's
        if thinking.opened:
            self._start_inside()
        elif self.held is not None:
            self._start = tokens.spell(thinking.start)

    def restricts(self) -> bool:
        if self._phase == "inside":
            return bool(self._closing) or self.held is not None
        return self.reply is not None and self.reply.restricts()

    def fill(self, bits: Any) -> None:
        if self._phase == "inside":
            self._fill_inside(bits)
            return
        assert self.reply is not None
        bits[:] = 0
        if self._may_be_reply:
            self.reply.fill(bits)
        if self._start:
            allow(bits, self._start[0])

    def _fill_inside(self, bits: Any) -> None:
        """When a reply must follow, the sequence cannot end inside its reasoning."""
        if self._closing:
            bits[:] = 0
            allow(bits, self._closing[0])
        else:
            bits[:] = ~self.tokens.end_bits

    def copy(self) -> ThinkingGuide:
        other = copy(self)
        other.reply = None if self.reply is None else self.reply.copy()
        other.held = other.reply if isinstance(other.reply, GrammarGuide) else None
        return other

    def append(self, token_id: int) -> list[int]:
        if self._phase == "inside":
            return self._append_inside(token_id)
        if self._phase == "before":
            held = self.held
            return self._append_free(token_id) if held is None else self._append_either(token_id, held)
        return [] if self.reply is None else self.reply.append(token_id)

    def _append_free(self, token_id: int) -> list[int]:
        """Without a grammar of the whole reply: the reasoning starts if the output starts with the marker
        (leading space aside).
        """
        self._output += self.tokens.bytes_of(token_id)
        output, marker = self._output.lstrip(), self.thinking.start.encode()
        if output.startswith(marker):
            if isinstance(self.reply, CallGuide):
                self.reply.restart()
            return self._start_inside() + self._find_closing(output[len(marker) :])
        if not marker.startswith(output):
            self._phase = "after"
        return [] if self.reply is None else self.reply.append(token_id)

    def _append_either(self, token_id: int, reply: GrammarGuide) -> list[int]:
        """With a grammar: the marker or the reply; a token that fits both leaves the choice open."""
        opens = self._start[:1] == [token_id]
        if opens and self._start[1:]:
            self._may_be_reply = self._may_be_reply and reply.allows(token_id)
            self._start = self._start[1:]
            if self._may_be_reply:
                self._may_be_reply = bool(reply.matcher.consume_token(token_id))
            return []
        if opens:
            reply.matcher.reset()
            self._may_be_reply = True
            return self._start_inside()
        self._start = []
        self._phase = "after"
        if not self._may_be_reply:
            raise GuideError("the output started like the marker of its reasoning, but did not complete it")
        return reply.append(token_id)

    def _start_inside(self) -> list[int]:
        self._phase, self._start = "inside", []
        return self._close_if_spent()

    def _append_inside(self, token_id: int) -> list[int]:
        if self._closing:
            self._closing = self._closing[1:]
            return [] if self._closing else self._finish(b"")
        self._num_inside += 1
        return self._find_closing(self.tokens.bytes_of(token_id)) or self._close_if_spent()

    def _find_closing(self, more: bytes) -> list[int]:
        """Search bytes from inside for the closing marker; the text after it belongs to the reply."""
        text = self._tail + more
        at = text.find(self._end)
        if at >= 0:
            return self._finish(text[at + len(self._end) :])
        self._tail = text[-len(self._end) + 1 :] if len(self._end) > 1 else b""
        return []

    def _finish(self, rest: bytes) -> list[int]:
        self._phase, self._tail = "after", b""
        if self.reply is None:
            return []
        return self.reply.take_text(rest)

    def _close_if_spent(self) -> list[int]:
        """When the budget is spent: the tokens of the closing marker that are still missing."""
        budget = self.thinking.budget
        if self._phase != "inside" or budget is None or self._num_inside < budget:
            return []
        closing = self._missing_closing()
        if not self.forces or self._num_inside == 0:  # the first token of all is asked for, not appended
            self._closing = closing
            return []
        return closing + self._finish(b"")

    def _missing_closing(self) -> list[int]:
        for length in range(len(self._end) - 1, 0, -1):
            if self._tail.endswith(self._end[:length]):
                return self.tokens.tokenizer.tokenize_bytes(self._end[length:])
        return self.tokens.spell(self.thinking.end)

    @property
    def finished(self) -> bool:
        return self._phase == "after" and self.reply is not None and self.reply.finished
