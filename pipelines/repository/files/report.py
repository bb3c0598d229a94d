"""What reading a file of OpenVINO Model Server came to: problems, and notes on what changes nothing here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from graphs.errors import GraphError, Problem

_NOTE = re.compile(r"# note: (.*)")


@dataclass
class Report:
    """The problems and notes of one file, which messages call `source`."""

    source: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, line: int, text: str) -> None:
        self.problems.append(Problem(line, text, self.source))

    def note(self, line: int, text: str) -> None:
        place = f"{self.source.rpartition('/')[2]}:{line}"
        self.notes.append(f"{place}: {text}")

    def written(self, lines: list[str]) -> str:
        """The text of a graph of these lines, after the notes.  Raises GraphError with the problems."""
        if self.problems:
            raise GraphError(self.problems)
        return "\n".join([*map(note_line, self.notes), "version: 1", *lines]) + "\n"


def note_line(note: str) -> str:
    """A note as a line in the text of a graph."""
    return f"# note: {' '.join(note.split())}"


def notes_of(text: str) -> list[str]:
    """The notes in the text of a graph."""
    return _NOTE.findall(text)
