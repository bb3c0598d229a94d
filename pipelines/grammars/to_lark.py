"""Converts a tree of formats to one grammar for llguidance.

Checks the fields of formats; the compiler checks the schemas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.grammars.format_fields import nodes, string, strings
from pipelines.grammars.formats import Format
from pipelines.grammars.json_regexes import NotHeld
from pipelines.grammars.json_texts import tagged_grammar, text_grammar
from pipelines.grammars.lark_terminals import literal, pattern
from pipelines.grammars.lark_writer import FormatTable, LarkExpression, LarkWriter, WriteFormat
from pipelines.grammars.leaf_formats import LEAF_FORMATS, FormatError, nested_grammar
from pipelines.grammars.tag_formats import tag, tags_with_separator, triggered_tags

MAX_REPEAT = 10_000


def lark_grammar_of(root: Format, specials: Mapping[str, int]) -> str:
    """The grammar text.  Raises FormatError for an invalid tree."""
    if root.get("type") in LEAF_FORMATS:
        return _written([nested_grammar(root)])
    writer = LarkWriter(specials, NODES)
    if root.get("type") == "regex":
        lark = f"start: {_regex_text(root)}"
    else:
        start = writer.rule(writer.write(root, 0))
        lark = "\n".join([f"start: {start}", *writer.rules])
    return _written([{"name": "main", "lark_grammar": lark}, *writer.sides])


def _written(grammars: list[dict[str, Any]]) -> str:
    try:
        return json.dumps({"grammars": grammars}, allow_nan=False)
    except ValueError as error:
        raise FormatError("numbers in a JSON schema must be finite") from error


def _constant(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.constant(string(node, "value"))


def _choice(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.named(
        LarkExpression(" | ".join(literal(one) for one in strings(node, "choices")), regular=True)
    )


def _regex(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.named(LarkExpression(_regex_text(node), regular=True))


def _regex_text(node: Format) -> str:
    return pattern(string(node, "pattern"))


def _any_text(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.text(strings(node, "excludes"))


def _sequence(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.sequence(nodes(node, "elements"), depth)


def _or(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    return writer.either([writer.write(element, depth) for element in nodes(node, "elements")])


def _repeat(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    least, most = node.get("min", 0), node.get("max")
    bounds = [least] if most is None else [least, most]
    if not all(type(bound) is int and 0 <= bound <= MAX_REPEAT for bound in bounds) or bounds != sorted(
        bounds
    ):
        raise FormatError(f"min and max of a repeat must be whole numbers, 0 <= min <= max <= {MAX_REPEAT}")
    return writer.times(
        writer.write(node.get("content"), depth), f"{{{least},{'' if most is None else most}}}"
    )


def _json_text(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    """The text between the quotes of a JSON string, which a grammar in Lark or a regular expression holds."""
    try:
        return writer.side({"lark_grammar": text_grammar(string(node, "syntax"), string(node, "definition"))})
    except NotHeld as error:
        raise FormatError(f"the grammar has no form over text in JSON: {error}") from error


def _tagged_text(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    """A text that a grammar in Lark or a regular expression holds, and the mark that ends it."""
    parts = string(node, "syntax"), string(node, "definition"), string(node, "end")
    try:
        return writer.side({"lark_grammar": tagged_grammar(*parts)})
    except NotHeld as error:
        raise FormatError(f"the grammar has no form over text between tags: {error}") from error


def _times(count: str) -> WriteFormat:
    return lambda writer, node, depth: writer.times(writer.write(node.get("content"), depth), count)


NODES: FormatTable = {
    "const_string": ({"value"}, _constant),
    "choice": ({"choices"}, _choice),
    "regex": ({"pattern"}, _regex),
    "any_text": ({"excludes"}, _any_text),
    "json_text": ({"syntax", "definition"}, _json_text),
    "tagged_text": ({"syntax", "definition", "end"}, _tagged_text),
    "sequence": ({"elements"}, _sequence),
    "or": ({"elements"}, _or),
    "optional": ({"content"}, _times("?")),
    "star": ({"content"}, _times("*")),
    "plus": ({"content"}, _times("+")),
    "repeat": ({"content", "min", "max"}, _repeat),
    "tag": ({"begin", "content", "end"}, tag),
    "triggered_tags": (
        {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"},
        triggered_tags,
    ),
    "tags_with_separator": ({"tags", "separator", "at_least_one", "stop_after_first"}, tags_with_separator),
}
