"""Writes formats of tags: constant text around a content, once, in free text, or with separators."""

from __future__ import annotations

from pipelines.grammars.format_fields import string, strings, tags_of
from pipelines.grammars.formats import Format
from pipelines.grammars.lark_writer import LarkExpression, LarkWriter
from pipelines.grammars.leaf_formats import FormatError


def tag(writer: LarkWriter, node: Format, depth: int, begin: str | None = None) -> LarkExpression:
    """`begin` replaces the tag's own when its first part is already written."""
    begin = string(node, "begin") if begin is None else begin
    ends = node.get("end")
    ends = strings(node, "end") if isinstance(ends, list) else [string(node, "end")]
    closing = {"type": "or", "elements": [{"type": "const_string", "value": end} for end in ends]}
    parts = [{"type": "const_string", "value": begin}, node.get("content"), *([closing] if any(ends) else [])]
    return writer.sequence(parts, depth)


def triggered_tags(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    triggers, tags = strings(node, "triggers"), tags_of(node)
    triggers = [
        trigger
        for trigger in triggers
        if not any(trigger != other and trigger.startswith(other) for other in triggers)
    ]
    if not triggers or not all(triggers):
        raise FormatError("triggers must be texts that are not empty")
    for tag in tags:
        if not tag["begin"].startswith(tuple(triggers)):
            raise FormatError(f"no trigger begins the tag {tag['begin'][:60]!r}")
    excluded = [*writer.plain(triggers), *strings(node, "excludes")]
    parts = []
    if node.get("at_least_one", False):
        parts.append(writer.either([writer.write(tag, depth) for tag in tags]))
    if not (parts and node.get("stop_after_first", False)):
        after_text = writer.named(
            writer.either([_after(writer, trigger, tags, excluded, depth) for trigger in triggers])
        )
        free = writer.text(excluded).text
        stops = node.get("stop_after_first", False)
        parts.append(
            LarkExpression(
                f"({after_text.text} | {free})" if stops else f"({after_text.text}* {free})", regular=False
            )
        )
    return writer.join(parts)


def _after(
    writer: LarkWriter, trigger: str, tags: list[Format], excluded: list[str], depth: int
) -> LarkExpression:
    """Free text up to a trigger, and the rest of one of its tags."""
    head = writer.join([writer.text(excluded), writer.constant(trigger)])
    begun = [one for one in tags if one["begin"].startswith(trigger)]
    if not begun:
        raise FormatError(f"no tag begins with the trigger {trigger[:60]!r}")
    rests = [writer.named(tag(writer, one, depth, one["begin"][len(trigger) :])) for one in begun]
    return LarkExpression(f"({writer.rule(head)} {writer.either(rests).text})", regular=False)


def tags_with_separator(writer: LarkWriter, node: Format, depth: int) -> LarkExpression:
    tags = writer.named(writer.either([writer.write(one, depth) for one in tags_of(node)]))
    separator = writer.named(writer.constant(string(node, "separator")))
    items = tags.text
    if not node.get("stop_after_first", False):
        items = f"({items} ({separator.text} {items})*)"
    return LarkExpression(items if node.get("at_least_one", False) else f"({items})?", regular=False)
