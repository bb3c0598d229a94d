"""Ends a text between its lines: after a time, or at a line that is indented too little."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from pipelines.values.reply_values import ReplyUpdate, TextUpdate
from server.apis.generation.replies.choice_builder import text_of
from server.apis.generation.replies.update_stages import Batch


@dataclass(slots=True)
class GrowingLines:
    """The text of one choice so far: whether it has a line break, and its last line."""

    has_new_line: bool = False
    line: str = ""
    num_chars: int = 0


@dataclass(slots=True)
class IndentLimits:
    """`num_indent` is the least indentation of lines after the first, in characters; `most_s` are the seconds
    after which a text ends once it has a line break.  0: no limit.
    """

    num_indent: int = 0
    most_s: float = 0.0
    started_s: float = field(default_factory=time.monotonic)
    _lines: defaultdict[int, GrowingLines] = field(default_factory=lambda: defaultdict(GrowingLines))

    @property
    def limits(self) -> bool:
        return self.num_indent > 0 or self.most_s > 0

    async def ended(self, updates: AsyncIterator[Batch], close: Callable[[], None]) -> AsyncIterator[Batch]:
        """The updates until a limit is met, the last with `finish` "length"; `close` ends their source."""
        open_choices: set[int] = set()
        async for batch in updates:
            open_choices |= {choice for choice, _ in batch}
            ends = {choice for choice, update in batch if self._ends(choice, update)}
            yield batch
            open_choices -= {choice for choice, update in batch if update.piece.finish}
            if ends and not open_choices:
                close()
                return

    def _ends(self, choice: int, update: ReplyUpdate | TextUpdate) -> bool:
        """Whether the text ends here; the update gets what is left of its text then."""
        text, lines = text_of(update), self._lines[choice]
        num_left = self._num_left(lines, text)
        is_late = self.most_s > 0 and lines.has_new_line and time.monotonic() - self.started_s > self.most_s
        if num_left == len(text) and not is_late:
            return False
        if isinstance(update, TextUpdate):
            update.text = text[:num_left]
        else:
            update.content = text[:num_left]
        update.piece.finish = update.piece.finish or "length"
        return True

    def _num_left(self, lines: GrowingLines, text: str) -> int:
        """How many characters of a text come before a line that is indented too little."""
        for at, character in enumerate(text):
            if character == "\n":
                lines.has_new_line, lines.line = True, ""
                continue
            lines.line += character if len(lines.line) <= self.num_indent else ""
            if lines.has_new_line and self.num_indent and _is_short(lines.line, self.num_indent):
                return at
        return len(text)


def _is_short(line: str, num_indent: int) -> bool:
    """Whether the first character of a line that is not blank comes too early."""
    blank = len(line) - len(line.lstrip(" \t"))
    return blank < len(line) and blank < num_indent
