"""Reads calls in elements: `<function name="f"><param name="city">Oslo</param></function>`, with CDATA.

Values get the types that the tool declares.  A call is given out when its element is complete.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pipelines.nodes.text.markup.tags import TagScanner
from pipelines.nodes.text.parsers.tools.calls import CallSink
from pipelines.nodes.text.parsers.tools.declared import Declared

CDATA, END = "<![CDATA[", "]]>"
"""The marks around text in which tags are text."""
HEAD = re.compile(r"""\s*["']?(?P<name>\w[\w.\-]*)["']?\s*>""")
PARAMETER = re.compile(
    r"""\s*<param\s+name=["']?(?P<key>[^"'>]++)["']?\s*>"""
    r"(?P<value>(?:(?><!\[CDATA\[.*?\]\]>)|(?!</param>|<!\[CDATA\[).)*+)</param>",
    re.DOTALL,
)
IN_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


class ElementReader:
    """The reader of one call."""

    def __init__(self, close: str, calls: CallSink, declared: Declared) -> None:
        self.closed = False
        self._close = close
        self._calls = calls
        self._declared = declared
        self._scanner = TagScanner(CDATA, close)
        self._left: list[str] = []

    def push(self, text: str) -> str | None:
        for before, tag in self._scanner.push(text):
            self._left.append(before)
            if tag == self._close:
                return self._end()
            if tag:
                self._left.append(tag)
                self._scanner.tags = (END,) if tag == CDATA else (CDATA, self._close)
        return None

    def finish(self) -> None:
        """A call with parameters can be complete without the closing marker."""
        if not self._call(is_cut=True):
            self._left.append(self._scanner.held)

    def left(self) -> str:
        return "".join(self._left)

    def _end(self) -> str:
        """The closing marker came: the text after it."""
        self.closed = True
        if not self._call():
            self._left.append(self._close)
        rest, self._scanner.held = self._scanner.held, ""
        return rest

    def _call(self, *, is_cut: bool = False) -> bool:
        """Whether the block is a call; one that is cut may have had more parameters than none."""
        body = self.left()
        head = HEAD.match(body)
        arguments = self._arguments(head["name"], body[head.end() :]) if head else None
        if head is None or arguments is None or (is_cut and not arguments):
            return False
        self._calls.begin(head["name"])
        self._calls.more(json.dumps(arguments, ensure_ascii=False))
        self._left.clear()
        return True

    def _arguments(self, name: str, text: str) -> dict[str, Any] | None:
        """None where anything but parameters is in the text."""
        found, at = {}, 0
        while parameter := PARAMETER.match(text, at):
            value = IN_CDATA.sub(lambda part: part[1], parameter["value"])
            found[parameter["key"]] = self._declared.value(name, parameter["key"], value)
            at = parameter.end()
        return None if text[at:].strip() else found
