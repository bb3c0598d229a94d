"""Reads the options of a calculator's node by its table: types are checked, unknown names refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphs.errors import hint
from pipelines.repository.files.report import Report
from pipelines.repository.files.text_format import Field, TextMessage, Word

ANY_PREFIXES = ("type.googleapis.com/mediapipe.", "mediapipe.")
EXTENSION = ".ext"
TRUTH = {"true": True, "t": True, "True": True, "false": False, "f": False, "False": False}
MAX_INTEGER = 1 << 63
KINDS: Mapping[Any, str] = {
    int: "a whole number, 0 or more",
    bool: "true or false",
    str: "a text in quotes",
    TextMessage: "a message in braces",
}


@dataclass(frozen=True)
class Option:
    """One field of a calculator's options.

    `kind` is int, bool, str, TextMessage or the words of an enum.  `sets` is the setting of the graph that it
    decides; `note` is why it changes nothing here, `refused` why it cannot be honoured.
    """

    name: str
    kind: Any
    default: Any = None
    sets: str = ""
    note: str = ""
    refused: str = ""
    repeated: bool = False
    required: bool = False


@dataclass(frozen=True)
class Given:
    """The options of one node: those that it gives, with their lines, and the defaults of the others."""

    node: TextMessage
    values: Mapping[str, Any]
    lines: Mapping[str, int]
    table: tuple[Option, ...]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.lines

    def line(self, name: str) -> int:
        """Where an option stands; that of the node where it is not given."""
        return self.lines.get(name, self.node.line)

    def placed(self, lines: list[str], file: str) -> list[str]:
        """Graph lines, each with the place of the option that decides a setting of it."""
        return [f"{line}  #@ {file}:{self._line_of(line)}" for line in lines]

    def _line_of(self, line: str) -> int:
        deciding = (option for option in self.table if option.name in self and option.sets)
        return next((self.line(each.name) for each in deciding if f"{each.sets}:" in line), self.node.line)


def read_options(node: TextMessage, message: str, table: tuple[Option, ...], report: Report) -> Given:
    """The options of `node`, which must be of the type `message`; what is wrong goes into `report`."""
    known = {option.name: option for option in table}
    values = {option.name: [] if option.repeated else option.default for option in table}
    lines: dict[str, int] = {}
    for field in _fields(node, message, report):
        option = known.get(field.name)
        if option is None:
            report.problem(field.line, f"{message} has no option `{field.name}`{hint(field.name, known)}")
            continue
        if option.name in lines and not option.repeated:
            report.problem(field.line, f"`{field.name}` is given twice, first in line {lines[field.name]}")
        _take(option, field, values, report)
        lines[field.name] = field.line
    for option in table:
        if option.required and option.name not in lines:
            report.problem(node.line, f"`{option.name}` is required")
    return Given(node, values, lines, table)


def _fields(node: TextMessage, message: str, report: Report) -> list[Field]:
    fields: list[Field] = []
    for holder in (*node.messages("node_options"), *node.messages("options")):
        for field in holder.fields:
            if _type_name(field.name) != message or not isinstance(field.value, TextMessage):
                report.problem(
                    field.line, f"options of the type {field.name}; here belongs mediapipe.{message}"
                )
            else:
                fields += field.value.fields
    return fields


def _type_name(name: str) -> str:
    """The message of `[type.googleapis.com/mediapipe.X]` or `[mediapipe.X.ext]`."""
    inner = name.strip("[]")
    prefix = next((each for each in ANY_PREFIXES if inner.startswith(each)), None)
    return inner.removeprefix(prefix).removesuffix(EXTENSION) if prefix else inner


def _take(option: Option, field: Field, values: dict[str, Any], report: Report) -> None:
    value = _value(option.kind, field.value)
    if value is None:
        allowed = KINDS.get(option.kind) if not isinstance(option.kind, tuple) else " or ".join(option.kind)
        report.problem(field.line, f"`{option.name}` must be {allowed}")
        return
    if option.repeated:
        values[option.name].append(value)
    else:
        values[option.name] = value
    if option.refused and value != option.default:
        report.problem(field.line, f"`{option.name}`: {option.refused}")
    elif option.note and value != option.default:
        report.note(field.line, f"`{option.name}` changes nothing here: {option.note}")


def _value(kind: Any, value: Any) -> Any:
    """The value of an option as its type has it; None where it is not of that type."""
    if kind is bool:
        return TRUTH.get(value) if isinstance(value, Word) else {0: False, 1: True}.get(value)
    if kind is int:
        return value if isinstance(value, int) and 0 <= value < MAX_INTEGER else None
    if kind is str:
        return value if isinstance(value, str) and not isinstance(value, Word) else None
    if kind is TextMessage:
        return value if isinstance(value, TextMessage) else None
    return str(value) if isinstance(value, Word) and value in kind else None
