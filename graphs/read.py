"""Reads YAML text: plain values, the line of every key, and the problems of the text.

A graph file uses a subset of YAML: mappings whose keys are words, lists, and scalars by the core rules of
YAML 1.2 (so `no` and `on` are words).  Anchors, aliases, merge keys and tags are refused, and size and depth
are bounded, so that the cost of reading is bounded by the length of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from graphs.errors import Problem

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 20
MAX_MESSAGE = 2000
"""Characters of a message, which may quote the file."""

KeyPath = tuple[str | int, ...]
"""The position of a value: the keys and list indexes that lead to it from the top."""

_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True)
_CONSTANTS |= dict.fromkeys(("false", "False", "FALSE"), False)
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}|0x[0-9a-fA-F]{1,32}|0o[0-7]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PLACE = re.compile(r"#@ (\S+):(\d+)\s*$")
"""What a line of a graph was made from: a file and its line, which messages name."""
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")


@dataclass
class GraphDocument:
    """A file that was read.  `data` is None where the text is invalid or is no mapping."""

    data: dict[str, Any] | None = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    source: str = "graph.yaml"
    places: dict[int, tuple[str, int]] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """The line of the key at `path`, or of the nearest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add(self, where: KeyPath | int, message: str) -> None:
        """Record a problem at a key or at a line; control characters are escaped."""
        line = where if isinstance(where, int) else self.line(where)
        shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in message[:MAX_MESSAGE])
        file, number = self.place(line)
        self.problems.append(Problem(number, shown, file))

    def place(self, line: int) -> tuple[str, int]:
        """The file and line that a line was made from; its own where it was written as it is."""
        made_from = self.places.get(line)
        if made_from is None:
            return self.source, line
        folder, slash, _ = self.source.rpartition("/")
        return f"{folder}{slash}{made_from[0]}", made_from[1]


def places(text: str) -> dict[int, tuple[str, int]]:
    """Line → the file and line that it was made from, by the comment `#@ FILE:LINE` at its end."""
    found = ((number, _PLACE.search(line)) for number, line in enumerate(text.splitlines(), 1))
    return {number: (match[1], int(match[2])) for number, match in found if match}


def read(text: str, source: str = "graph.yaml") -> GraphDocument:
    """The values of a graph file and the problems of its text.  Raises nothing."""
    document = GraphDocument(source=source)
    if len(text) > MAX_CHARACTERS:
        document.add(1, f"the file is {len(text)} characters long; a graph has at most {MAX_CHARACTERS}")
        return document
    document.places = places(text)
    try:
        _Reader(text, document).document()
    except _StopReading:
        document.data = None
    except yaml.MarkedYAMLError as error:
        document.data = None
        _syntax_problem(error, text, document)
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        document.data = None
        document.add(text.count("\n", 0, position) + 1, f"not text: {getattr(error, 'reason', error)}")
    return document


def without_places(text: str) -> str:
    """The text without those comments, for a file that is edited from now on."""
    return "".join(_PLACE.sub("", line).rstrip() + "\n" for line in text.splitlines())


def scalar(text: str) -> Any:
    """A plain scalar's value by the core schema of YAML 1.2 (chapter 10.3): null, bool, int, float or str."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return float(special[1] + special[2])
    return text


class _StopReading(Exception):
    """The rest of the text cannot be read reliably."""


class _Reader:
    """Builds values from the parser's events, so that the depth is checked before anything is built."""

    def __init__(self, text: str, document: GraphDocument) -> None:
        self.events = yaml.parse(text, Loader=yaml.SafeLoader)
        self.out = document
        self.plain = True  # False once a YAML feature was refused: then the values are not usable

    def document(self) -> None:
        event = self.skip(yaml.StreamStartEvent, yaml.DocumentStartEvent)
        if isinstance(event, yaml.StreamEndEvent):
            self.stop(event, "the file is empty; a graph has `version`, `task` and `nodes`")
        data = self.value(event, ())
        if not isinstance(data, dict):
            self.stop(event, "a graph file is a mapping with the keys `version`, `task` and `nodes`")
        after = self.skip(yaml.DocumentEndEvent)
        if not isinstance(after, yaml.StreamEndEvent):
            self.stop(after, "a second document starts here; a file holds one graph")
        self.out.data = data if self.plain else None

    def skip(self, *kinds: type[yaml.Event]) -> yaml.Event:
        while isinstance(event := next(self.events), kinds):
            pass
        return event

    def value(self, event: yaml.Event, path: KeyPath) -> Any:
        self.refuse_marks(event)
        if isinstance(event, yaml.ScalarEvent):
            return scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.AliasEvent):
            return None
        if len(path) >= MAX_DEPTH:
            self.stop(event, f"values are nested more than {MAX_DEPTH} deep")
        return self.mapping(path) if isinstance(event, yaml.MappingStartEvent) else self.sequence(path)

    def sequence(self, path: KeyPath) -> list[Any]:
        out: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            child = (*path, len(out))
            self.out.lines[child] = _line(event)
            out.append(self.value(event, child))
        return out

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event, path)
            if key is None or key in out:
                first = self.out.lines.get((*path, key or ""))
                if key is not None:
                    self.out.add(_line(event), f"`{key}` is written twice; the first is at line {first}")
                self.value(next(self.events), (*path, "", ""))  # read for its own problems, then left out
                continue
            child = (*path, key)
            self.out.lines[child] = _line(event)
            out[key] = self.value(next(self.events), child)
        return out

    def key(self, event: yaml.Event, path: KeyPath) -> str | None:
        value = self.value(event, (*path, "", ""))
        if isinstance(event, yaml.AliasEvent):
            return None
        if value == "<<":
            self.refuse(event, "merge keys (`<<`) are not part of the language; write the settings out")
        elif isinstance(value, str):
            return value
        else:
            shown = event.value if isinstance(event, yaml.ScalarEvent) else "a list or mapping"
            self.out.add(_line(event), f"the key `{shown}` is not a word; keys are words")
        return None

    def refuse_marks(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            self.refuse(event, f"the alias `*{event.anchor}` is not part of the language; repeat the value")
        elif (anchor := getattr(event, "anchor", None)) is not None:
            self.refuse(event, f"the anchor `&{anchor}` is not part of the language; delete it")
        elif (tag := getattr(event, "tag", None)) is not None:
            self.refuse(event, f"the tag `{tag}` is not part of the language; delete it")

    def refuse(self, event: yaml.Event, message: str) -> None:
        self.plain = False
        self.out.add(_line(event), message)

    def stop(self, event: yaml.Event, message: str) -> NoReturn:
        self.out.add(_line(event), message)
        raise _StopReading


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, document: GraphDocument) -> None:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    since = error.context_mark.line + 1 if error.context_mark else line
    if "'\\t'" in str(error.problem):
        document.add(line, "YAML does not allow a tab here; indent with spaces")
        return
    context = f" ({error.context} that starts at line {since})" if error.context and since != line else ""
    lines = text.splitlines() or [""]
    document.add(min(line, len(lines)), f"not YAML: {error.problem or error}{context}")
