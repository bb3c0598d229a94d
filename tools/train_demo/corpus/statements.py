"""What a text says: values by key, for keys of any name."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..split import Draw
from .distraction import disturbed
from .fields import FIELDS, TRAINED_FIELDS, key_for, person, strange_key, thing
from .sentences import TEXTS, TRAINED_TEXTS


class Said(NamedTuple):
    """A text and what it says; `choosable` where a key tells which of the values it means."""

    fields: dict[str, Any]
    text: str
    choosable: bool = True


def said(draw: Draw) -> Said:
    if draw.chance(0.35):
        return _free(draw)
    kinds, sentences = draw.any(TEXTS if draw.held_out else TRAINED_TEXTS)
    values = {kind: TRAINED_FIELDS[kind].value(draw) for kind in kinds.split()}
    text = disturbed(draw, draw.phrase(sentences, **{kind: plain(value) for kind, value in values.items()}))
    strange = _strange_kinds(draw, list(values))
    keys = {
        kind: strange_key(draw) if kind in strange else key_for(draw, TRAINED_FIELDS[kind]) for kind in values
    }
    if len(set(keys.values())) < len(keys):
        return said(draw)
    fields: dict[str, Any] = {keys[kind]: values[kind] for kind in _ordered(draw, list(values), strange)}
    if draw.chance(0.1):
        fields = {draw.any(["data", "result", "record", "entry", "info"]): fields}
    return Said(fields, text, not strange)


def _strange_kinds(draw: Draw, kinds: list[str]) -> list[str]:
    """In training at times all keys say nothing, at times all but the others tell what one of them means."""
    if draw.held_out or draw.chance(0.5):
        return []
    return kinds if draw.chance(0.4) else [draw.any(kinds)]


def _ordered(draw: Draw, kinds: list[str], strange: list[str]) -> list[str]:
    """In training in any order, so that a key's place means nothing, unless it is all that a key has."""
    if draw.held_out or strange or draw.chance(0.5):
        return kinds
    return draw.some(kinds, len(kinds))


def _free(draw: Draw) -> Said:
    """Keys that the text itself names, of any kind."""
    keys = list(dict.fromkeys(_free_key(draw) for _ in range(draw.number(1, 4))))
    fields = {key: _free_value(draw) for key in keys}
    style = draw.any(["colons", "sentence", "lines"])
    if style == "sentence":
        text = " and ".join(f"the {key} is {plain(value)}" for key, value in fields.items())
        return Said(fields, f"{text[0].upper()}{text[1:]}.")
    mark = "\n" if style == "lines" else ", "
    return Said(fields, mark.join(f"{key}: {plain(value)}" for key, value in fields.items()))


def _free_key(draw: Draw) -> str:
    if draw.held_out or draw.chance(0.3):
        field = FIELDS[draw.any(list(FIELDS))]
        return draw.of(field.keys)
    return strange_key(draw)


def _free_value(draw: Draw) -> Any:
    kind = draw.weighted({"word": 4, "name": 3, "number": 4, "truth": 1, "phrase": 1})
    if kind == "number":
        return draw.number(0, draw.any([9, 99, 9999]))
    if kind == "truth":
        return draw.chance(0.5)
    if kind == "name":
        return person(draw)
    return thing(draw) if kind == "word" else f"{thing(draw)} {thing(draw)}"


def plain(value: Any) -> str:
    """A value as text says it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(value[:-1]) + " and " + value[-1] if len(value) > 1 else value[0]
    return str(value).lower() if isinstance(value, bool) else str(value)
