"""The text of a page of HTML, with its headings as those of Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "head", "nav", "footer"})
"""Elements whose text is not read: no prose, or the same on every page."""
BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "ul", "ol", "li", "table", "tr", "pre", "blockquote", "br"}
    | {"dl", "dt", "dd", "figure", "figcaption", "hr"}
)
MAX_DEPTH = 64
"""Elements of `HIDDEN` in each other whose ends are looked for."""
HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


def text_of_html(page: str) -> str:
    """The text: blocks are paragraphs, `<h2>` is `## `."""
    reader = _PageText()
    reader.feed(page)
    if not reader.rawdata.startswith("<"):  # a tag or comment that never ends is dropped, as browsers do
        reader.close()
    lines = [re.sub(r"[ \t\r\f\v]+", " ", line).strip() for line in "".join(reader.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _PageText(HTMLParser):
    """Gathers the text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN and len(self._hidden) < MAX_DEPTH:
            self._hidden.append(tag)
        elif tag in HEADINGS:
            self.parts.append(f"\n\n{HEADINGS[tag]} ")
        elif tag in BLOCKS:
            self.parts.append("\n\n" if tag == "p" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
        elif tag in HEADINGS or tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
