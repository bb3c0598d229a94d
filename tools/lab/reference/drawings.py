"""Draws the graphs of pages as `braid check` prints them: `python -m tools.lab.reference.drawings FILE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from click.testing import CliRunner

from server.cli import main

DRAWING = re.compile(r"^```\n\$ braid check (\S+)\n.*?^```\n", re.MULTILINE | re.DOTALL)
"""A block that shows the command and what it printed."""


def drawn(text: str) -> str:
    """The text with every drawing made again."""
    return DRAWING.sub(lambda found: _block(found[1]), text)


def _block(folder: str) -> str:
    shown = CliRunner().invoke(main, ["check", folder], catch_exceptions=False).stdout
    return f"```\n$ braid check {folder}\n{shown}```\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(drawn(page.read_text()))
