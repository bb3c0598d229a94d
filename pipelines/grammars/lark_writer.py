"""Writes Lark expressions: what becomes a rule, what a terminal, and where free text ends.

The table of formats is an argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pipelines.grammars.format_fields import strings
from pipelines.grammars.formats import Format
from pipelines.grammars.lark_terminals import first_text, literal, split, text_without
from pipelines.grammars.leaf_formats import LEAF_FORMATS, FormatError, nested_grammar

MAX_DEPTH = 32
MAX_NODES = 20_000


class LarkExpression(NamedTuple):
    """An expression of Lark.  The lexer matches a `regular` one whole and joins regular neighbours to one
    terminal.

    So a pattern ends where the next expression begins; the lexer alone would take the longest match.
    """

    text: str
    regular: bool


WriteFormat = Callable[["LarkWriter", Format, int], LarkExpression]
"""Writes formats of one type; the number is the depth of the node."""
FormatTable = Mapping[str, tuple[set[str], WriteFormat]]
"""Type of a format → its fields, and the function that writes it."""


class LarkWriter:
    """Collects rules, and nested grammars for formats that are not written in Lark."""

    def __init__(self, specials: Mapping[str, int], table: FormatTable) -> None:
        self.specials = specials
        self.table = table
        self.rules: list[str] = []
        self.sides: list[dict[str, Any]] = []
        self.num_nodes = 0

    def write(self, node: Any, depth: int) -> LarkExpression:
        self.num_nodes += 1
        if depth > MAX_DEPTH or self.num_nodes > MAX_NODES:
            raise FormatError("the format is nested too deeply, or too large")
        if not isinstance(node, dict):
            raise FormatError(f"a format must be an object, not {json.dumps(node)[:40]}")
        kind = node.get("type")
        if kind in LEAF_FORMATS:
            return self.side(nested_grammar(node))
        if not isinstance(kind, str) or kind not in self.table:
            known = ", ".join(sorted([*self.table, *LEAF_FORMATS]))
            raise FormatError(f"unknown format type {json.dumps(kind)[:40]}; known are {known}")
        fields, write = self.table[kind]
        if unknown := sorted(node.keys() - fields - {"type"}):
            raise FormatError(f"unknown field {unknown[0]!r} in a format of type {kind!r}")
        return write(self, node, depth + 1)

    def rule(self, piece: LarkExpression) -> str:
        """Add a rule for the expression, a terminal when it is regular; return its name."""
        name = f"{'T' if piece.regular else 'r'}{len(self.rules)}"
        self.rules.append(f"{name}: {piece.text}")
        return name

    def named(self, piece: LarkExpression) -> LarkExpression:
        return LarkExpression(self.rule(piece), piece.regular)

    def join(self, pieces: Iterable[LarkExpression]) -> LarkExpression:
        """The expressions in sequence; regular neighbours become one terminal."""
        runs: list[LarkExpression] = []
        for piece in pieces:
            if runs and runs[-1].regular and piece.regular:
                runs[-1] = LarkExpression(f"{runs[-1].text} {piece.text}", regular=True)
            else:
                runs.append(piece)
        if not runs:
            return LarkExpression('""', regular=True)
        if len(runs) == 1:
            return LarkExpression(f"({runs[0].text})", runs[0].regular)
        return LarkExpression(
            "(" + " ".join(self.rule(run) if run.regular else run.text for run in runs) + ")", regular=False
        )

    def either(self, pieces: list[LarkExpression]) -> LarkExpression:
        regular = all(piece.regular for piece in pieces)
        texts = [piece.text if regular or not piece.regular else self.rule(piece) for piece in pieces]
        return LarkExpression("(" + " | ".join(texts) + ")", regular)

    def times(self, piece: LarkExpression, count: str) -> LarkExpression:
        return LarkExpression(f"({piece.text if piece.regular else self.rule(piece)}){count}", piece.regular)

    def constant(self, text: str) -> LarkExpression:
        """The text as it is; the special tokens in it stand for themselves."""
        parts = list(split(text, self.specials))
        return self.join(
            LarkExpression(f"<[{part}]>", regular=False)
            if isinstance(part, int)
            else LarkExpression(literal(part), regular=True)
            for part in parts
        )

    def text(self, excluded: Iterable[str]) -> LarkExpression:
        return self.named(LarkExpression(text_without(excluded), regular=True))

    def sequence(self, nodes: list[Any], depth: int) -> LarkExpression:
        """The nodes in sequence; free text ends where the constant text after it first appears."""
        pieces = []
        for at, node in enumerate(nodes):
            if isinstance(node, dict) and node.get("type") == "any_text" and nodes[at + 1 :]:
                stops = leading_texts(nodes[at + 1])
                if not stops:
                    raise FormatError("any_text must be the last, or be followed by constant text")
                node = {**node, "excludes": [*strings(node, "excludes"), *self.plain(stops)]}
            pieces.append(self.write(node, depth))
        return self.join(pieces)

    def plain(self, texts: Iterable[str]) -> list[str]:
        return [plain for text in texts if (plain := first_text(text, self.specials))]

    def side(self, grammar: dict[str, Any]) -> LarkExpression:
        """Another grammar of llguidance's list, by a name."""
        name = f"side_{len(self.sides)}"
        self.sides.append({**grammar, "name": name})
        return LarkExpression(f"@{name}", regular=False)


def leading_texts(node: Any) -> list[str]:
    """The constant texts with which a node may begin; [] when it may begin with anything else."""
    if not isinstance(node, dict):
        return []
    kind = node.get("type")
    if kind == "const_string" and isinstance(node.get("value"), str):
        return [node["value"]] if node["value"] else []
    if kind == "tag" and isinstance(node.get("begin"), str):
        return [node["begin"]] if node["begin"] else []
    elements = node.get("elements")
    if kind == "or" and isinstance(elements, list) and elements:
        beginnings = [leading_texts(element) for element in elements]
        return [text for texts in beginnings for text in texts] if all(beginnings) else []
    if kind == "sequence" and isinstance(elements, list) and elements:
        return leading_texts(elements[0])
    return []
