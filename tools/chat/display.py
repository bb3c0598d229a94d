"""Shows a reply: in a terminal with reasoning dimmed, elsewhere as plain text, without reasoning."""

from __future__ import annotations

import re
import sys

from rich.console import Console
from rich.text import Text

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters of a model that would move a terminal's cursor or change its settings."""


class Terminal:
    """A terminal.  A model's text is shown as text: markup and control characters in it do nothing."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._style: str | None = None

    def reasoning(self, text: str) -> None:
        self._show(text, "dim italic")

    def content(self, text: str) -> None:
        self._show(text, "")

    def call(self, text: str) -> None:
        self._show(text, "cyan")

    def note(self, text: str) -> None:
        """A line about the conversation, on a line of its own."""
        self.end()
        self._console.print(Text(CONTROLS.sub("", text), "dim"))

    def problem(self, text: str) -> None:
        self.end()
        self._console.print(Text(CONTROLS.sub("", text), "red"))

    def end(self) -> None:
        """End the line of a reply."""
        if self._style is not None:
            self._console.print()
            self._style = None

    def _show(self, text: str, style: str) -> None:
        if self._style not in (None, style):
            self._console.print("\n")
            text = text.lstrip("\n")
        self._style = style
        self._console.print(Text(CONTROLS.sub("", text), style), end="", soft_wrap=True)


class Plain:
    """A file or a pipe: the answer and calls to stdout, all else to stderr; reasoning is left out."""

    def __init__(self) -> None:
        self._has_text = False

    def reasoning(self, text: str) -> None:
        """Not a part of the answer."""

    def content(self, text: str) -> None:
        self._has_text = True
        sys.stdout.write(text)
        sys.stdout.flush()

    def call(self, text: str) -> None:
        self.content(text if self._has_text else text.lstrip("\n"))

    def note(self, text: str) -> None:
        self.end()
        print(text, file=sys.stderr)

    problem = note

    def end(self) -> None:
        if self._has_text:
            print(flush=True)
            self._has_text = False
