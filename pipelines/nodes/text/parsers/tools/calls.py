"""Finds the blocks of tool calls in text that arrives in pieces: the common part of all tool parsers.

Each block is read by its reader.  A call is given out once it is certain to be one, and never taken back;
what turns out to be no call is content, markers included, so that no character is lost.  Only where a limit
cuts the text inside a block, what is no call yet is left out: it is half of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.tools.declared import Declared
from pipelines.nodes.text.parsers.tools.json_values import whole_characters
from pipelines.nodes.text.parsers.tools.model_json import ModelJson
from pipelines.values.reply_values import ToolCallPiece


def new_id() -> str:
    return f"chatcmpl-tool-{uuid.uuid4().hex}"


class CallSink:
    """The calls of one choice, given out in pieces.  A call that was started is never taken back.

    The arguments of each are one JSON value, whatever its reader adds: they are closed where it stops.
    """

    def __init__(self, new_id: Callable[[], str] = new_id) -> None:
        self.count = 0
        self._new_id = new_id
        self._ids: set[str] = set()
        self._pieces: list[ToolCallPiece] = []
        self._arguments: ModelJson | None = None  # of the call that was started last, while they are open
        self._is_empty = False

    @property
    def quoted(self) -> bool:
        """Whether more arguments would continue a string."""
        return self._arguments is not None and self._arguments.quoted

    def begin(self, name: str, id: str = "") -> None:
        """Start a call; `id` is the model's own, used unless an earlier call has it."""
        self.end()
        id = whole_characters(id)
        id = id if id and id not in self._ids else self._new_id()
        self._ids.add(id)
        self._pieces.append(ToolCallPiece(self.count, "", id, whole_characters(name)))
        self._arguments, self._is_empty = ModelJson(), True
        self.count += 1

    def more(self, arguments: str) -> str | None:
        """More of the arguments of the call that was started last.

        Returns the text after them, or from where it is no JSON; None while they continue.
        """
        return arguments if self._arguments is None else self._arguments.push(arguments)

    def settle(self) -> None:
        """The value that was added last is whole."""
        if self._arguments is not None:
            self._arguments.settle()

    def end(self) -> str:
        """No more arguments come.  Returns the text at their end that is part of no value."""
        if self._arguments is None:
            return ""
        self._arguments.finish()
        self._give()
        if self._is_empty:
            self._pieces.append(ToolCallPiece(self.count - 1, "{}"))
        unread, self._arguments = self._arguments.unread(), None
        return unread

    def take(self) -> list[ToolCallPiece]:
        """The pieces since the last call of this function."""
        self._give()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _give(self) -> None:
        written = "" if self._arguments is None else self._arguments.take()
        if written:
            self._pieces.append(ToolCallPiece(self.count - 1, written))
            self._is_empty = False


class Reader(Protocol):
    """Reads one block as it arrives, and starts its calls as soon as they are certain."""

    @property
    def closed(self) -> bool:
        """Whether the closing marker was read."""

    def push(self, text: str) -> str | None:
        """The text after the block; None while the block continues."""

    def finish(self) -> None:
        """The text ended inside the block."""

    def left(self) -> str:
        """The end of the block that is part of no call: the whole block where no call was started."""


MakeReader = Callable[[str, CallSink, Declared], Reader]
"""(closing marker of a block, or "" where its value has its own end; sink of calls; tools) → a reader."""


@dataclass(frozen=True)
class CallBlock:
    """Text from `open` to `close`, or, without `close`, to where its value ends.

    With `bare` the marker is a part of the value ("[" or "{"), and counts only where no content is between it
    and the beginning, a marker or a call.
    """

    open: str
    reader: MakeReader
    close: str = ""
    bare: bool = False


@dataclass(frozen=True)
class Family:
    """The format of tool calls of one family of models.

    `before` and `after` are markers around several blocks; `between` are characters that, like white space,
    only separate calls.  Markers may be special tokens, so the text must include those.
    """

    blocks: tuple[CallBlock, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    between: str = ""
    new_id: Callable[[], str] = new_id


class CallFinder:
    """Finds the calls of one choice.  White space between a call and its neighbours is markup."""

    def __init__(self, family: Family, tools: Sequence[dict[str, Any]] = ()) -> None:
        self._family = family
        self._declared = Declared(tools)
        self._calls = CallSink(family.new_id)
        self._opens: dict[str, CallBlock] = {}
        self._armed = False
        self._scanner = TagScanner()
        self._block: CallBlock | None = None
        self._reader: Reader | None = None
        self._began = 0  # calls before the block
        self._due: tuple[str, ...] = ()  # markers after a call whose block was left before its end
        self._blank: list[str] = []  # white space and markers that are content only if content follows
        self._called = False  # nothing but blank text since the last call
        self._is_marked = False  # the text ended where a marker or a call says that calls follow
        self._arm(bare=True)

    def push(
        self, text: str, *, final: bool = False, is_cut: bool = False
    ) -> tuple[str, list[ToolCallPiece]]:
        content = ""
        rest: str | None = text
        while rest is not None:
            shown, rest = self._inside(rest) if self._reader else self._outside(rest)
            content += shown
        if final:
            end = self._finish()
            content += "" if is_cut and self._is_marked else end
        return content, self._calls.take()

    def _outside(self, text: str) -> tuple[str, str | None]:
        """Content, and the text after a block's opening marker, None where there is none."""
        content = ""
        for before, tag in self._scanner.push(text):
            content += self._content(before)
            if tag in self._opens:
                rest, self._scanner.held = self._scanner.held, ""
                return content, self._enter(self._opens[tag], rest)
            if tag:
                content += self._mark(tag)
        return content, None

    def _enter(self, block: CallBlock, rest: str) -> str:
        self._block, self._began, self._due = block, self._calls.count, ()
        self._reader = block.reader(block.close, self._calls, self._declared)
        return block.open + rest if block.bare else rest

    def _inside(self, text: str) -> tuple[str, str | None]:
        assert self._reader is not None
        rest = self._reader.push(text)
        self._note_calls()
        return ("", None) if rest is None else (self._leave(), rest)

    def _note_calls(self) -> None:
        """White space before a call is markup, and after it anything can start."""
        if self._calls.count > self._began:
            self._blank, self._called = [], True
            self._arm(bare=True)

    def _leave(self) -> str:
        """Content that the block turned out to hold."""
        block, reader = self._block, self._reader
        assert block is not None
        assert reader is not None
        self._block = self._reader = None
        self._calls.end()
        left = reader.left()
        if self._calls.count > self._began:
            self._expect(() if reader.closed or not block.close else (block.close, *self._family.after))
        elif not block.bare:
            left = block.open + left
        return self._content(left) if left else ""

    def _mark(self, tag: str) -> str:
        """A marker around blocks is markup where calls can be; elsewhere it is content."""
        if tag in self._due:
            self._expect(tuple(each for each in self._due if each != tag))
            return ""
        if tag in self._family.before:
            self._blank.append(tag)
            self._arm(bare=True)
            return ""
        return "" if self._called else self._content(tag)

    def _content(self, text: str) -> str:
        """Text outside blocks, with the white space before it; white space at its end is held back."""
        if not text.strip().strip(self._family.between if self._called else "").strip():
            self._blank.append(text)
            return ""
        said = text.rstrip()
        shown = "".join((*self._blank, said))
        self._blank, self._called = [text[len(said) :]], False
        self._arm(bare=False)
        return shown

    def _arm(self, *, bare: bool) -> None:
        """Look for markers; for brackets without a marker only while `bare`."""
        if self._armed == bare:
            return
        self._armed = bare
        self._opens = {block.open: block for block in self._family.blocks if bare or not block.bare}
        self._look()

    def _expect(self, markers: tuple[str, ...]) -> None:
        """Takes these markers for markup, even after content."""
        self._due = tuple(each for each in markers if not any(open.startswith(each) for open in self._opens))
        self._look()

    def _look(self) -> None:
        self._scanner.tags = (*self._opens, *self._family.before, *self._family.after, *self._due)

    def _finish(self) -> str:
        """The text ended: calls that an open block has started stay.  Returns the content at its end."""
        content = ""
        self._is_marked = any(blank in self._family.before for blank in self._blank)
        if self._reader is not None and self._block is not None:
            self._reader.finish()
            self._note_calls()
            self._is_marked |= not self._block.bare or self._calls.count > self._began
            content = self._leave()
        for rest, _ in self._scanner.push("", final=True):
            content += self._content(rest)
        if self._calls.count == 0:
            content += "".join(self._blank)
        self._blank.clear()
        return content
