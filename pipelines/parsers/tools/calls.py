"""The engine under every tool parser: finds blocks of calls in text that arrives in pieces.

Knows what blocks a family writes and where they end; how a block is read is the family's own matter.
Knows nothing of reasoning or tokens.  A call is shown when its block is whole; what turns out to be no call
is content, marks and all, so that no character is lost.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pipelines.parsers.tags import TagScanner
from pipelines.parsers.tools.declared import Declared
from pipelines.parsers.tools.ends import BracketEnd, TagEnd
from pipelines.values import CallPiece


class Made(NamedTuple):
    """One call as a block holds it.  `id` is set by families whose calls carry one."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


Read = Callable[[str, Declared], "list[Made] | None"]
"""A block's text, without its marks → its calls; None or none when it is no block of calls."""


@dataclass(frozen=True)
class Block:
    """Text from `open` to `close`, or, without `close`, to where the brackets of its value are closed.

    With `bare` the mark belongs to the value itself ("[" or "{"), and counts only where no content stands
    before it since the beginning, a mark or a call.  With `named` a name may stand before the value.  What
    `must_close` is not read when the text ends inside it, because half of it could look whole.
    """

    open: str
    read: Read
    close: str = ""
    bare: bool = False
    named: bool = False
    must_close: bool = False


def new_id() -> str:
    return f"chatcmpl-tool-{uuid.uuid4().hex}"


@dataclass(frozen=True)
class Family:
    """What the models of one family write.

    `before` and `after` are marks around several blocks; `between` are characters that, like white space,
    only separate calls.  Marks may be special tokens, so the text must have been made with those.
    """

    blocks: tuple[Block, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    between: str = ""
    new_id: Callable[[], str] = new_id


class End(Protocol):
    """Finds the end of one block."""

    def push(self, text: str) -> str | None:
        """What follows the block, None while it goes on."""

    def body(self) -> str:
        """The block's text so far, without its marks."""


class CallFinder:
    """Finds the calls of one choice.  White space between a call and its neighbours is markup."""

    def __init__(self, family: Family, tools: Sequence[dict[str, Any]] = ()) -> None:
        self._family = family
        self._declared = Declared(tools)
        self._opens: dict[str, Block] = {}
        self._armed = False
        self._scanner = TagScanner()
        self._block: Block | None = None
        self._end: End = TagEnd("")
        self._blank = ""  # white space and marks that are content only if content follows
        self._called = False  # nothing but blank text since the last call
        self._calls: list[CallPiece] = []
        self._count = 0
        self._arm(bare=True)

    def push(self, text: str, *, final: bool = False) -> tuple[str, list[CallPiece]]:
        content = ""
        rest: str | None = text
        while rest is not None:
            shown, rest = self._inside(rest) if self._block else self._outside(rest)
            content += shown
        if final:
            content += self._finish()
        calls, self._calls = self._calls, []
        return content, calls

    def _outside(self, text: str) -> tuple[str, str | None]:
        """Content, and the text after a block's open mark, None when there is none."""
        content = ""
        for before, tag in self._scanner.push(text):
            content += self._content(before)
            if tag in self._opens:
                self._block = self._opens[tag]
                rest, self._scanner.held = self._scanner.held, ""
                self._end = TagEnd(self._block.close) if self._block.close else BracketEnd(self._block.named)
                return content, (tag + rest if self._block.bare else rest)
            if tag:
                content += self._mark(tag)
        return content, None

    def _inside(self, text: str) -> tuple[str, str | None]:
        rest = self._end.push(text)
        if rest is None or self._block is None:
            return "", None
        return self._close(self._block.close), rest

    def _close(self, mark: str, *, final: bool = False) -> str:
        """Content that the block turns out to be: nothing when it holds calls."""
        block, body, self._block = self._block, self._end.body(), None
        assert block is not None
        made = None if final and block.must_close else block.read(body, self._declared)
        if not made:
            return self._content(("" if block.bare else block.open) + body + mark)
        self._calls += [self._call(each) for each in made]
        self._blank, self._called = "", True
        self._arm(bare=True)
        return ""

    def _call(self, made: Made) -> CallPiece:
        self._count += 1
        arguments = json.dumps(made.arguments, ensure_ascii=False)
        return CallPiece(self._count - 1, arguments, made.id or self._family.new_id(), made.name)

    def _mark(self, tag: str) -> str:
        """A mark around blocks is blank where calls may be; elsewhere it is content."""
        if tag in self._family.before:
            self._blank += tag
            self._arm(bare=True)
            return ""
        return "" if self._called else self._content(tag)

    def _content(self, text: str) -> str:
        """Text outside blocks: shown, with what stood blank before it; white space at its end waits."""
        if not text.strip().strip(self._family.between if self._called else "").strip():
            self._blank += text
            return ""
        shown = self._blank + text.rstrip()
        self._blank, self._called = text[len(text.rstrip()) :], False
        self._arm(bare=False)
        return shown

    def _arm(self, *, bare: bool) -> None:
        """Look for marks; for brackets that no mark precedes only while `bare`."""
        if self._armed == bare:
            return
        self._armed, family = bare, self._family
        self._opens = {block.open: block for block in family.blocks if bare or not block.bare}
        self._scanner.tags = (*self._opens, *family.before, *family.after)

    def _finish(self) -> str:
        """The text ended: an unclosed block may still hold whole calls."""
        content = self._close("", final=True) if self._block else ""
        for rest, _ in self._scanner.push("", final=True):
            content += self._content(rest)
        if self._count == 0:
            content += self._blank
        self._blank = ""
        return content
