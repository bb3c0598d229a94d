"""One relation: what may be asked about a thing, and how a text tells it."""

from __future__ import annotations

from dataclasses import dataclass

from ...split import Split


@dataclass(frozen=True)
class Relation:
    """Questions and sentences have a slot `{e}` for the thing, sentences `{v}` for what is told of it.

    `kinds` are the kinds of things that it is told of; `values` have slots of `filling.fill`.
    """

    name: str
    kinds: tuple[str, ...]
    values: tuple[str, ...]
    questions: Split[str]
    sentences: Split[str]


def relations(text: str) -> list[Relation]:
    """Blocks of `name : kinds`, `= values`, `? question`, `. sentence`; a star before a mark holds out."""
    return [_relation(block) for block in text.strip().split("\n\n")]


def _relation(block: str) -> Relation:
    head, values, *lines = block.splitlines()
    name, _, kinds = head.partition(" : ")
    return Relation(
        name,
        tuple(kinds.split()),
        tuple(value.strip() for value in values.removeprefix("= ").split(" | ")),
        Split(_marked(lines, "? "), _marked(lines, "*? ")),
        Split(_marked(lines, ". "), _marked(lines, "*. ")),
    )


def _marked(lines: list[str], mark: str) -> tuple[str, ...]:
    return tuple(line.removeprefix(mark) for line in lines if line.startswith(mark))
