"""Tools that exist nowhere, so that a model reads what is declared instead of knowing the usual tools."""

from __future__ import annotations

from collections.abc import Callable

from ..split import Draw, Split, listed
from . import tables
from .invention import made_up_word, name_or_new
from .toolbox import Family, Slot, Value

VERBS = listed(
    """open, close, count, make, check, stop, clean, move, paint, read, rent, fix, update, delete, watch,
    print, wash, lock, save, measure, describe, sort, mix, lift, cook"""
)
VALUES: dict[str, tuple[str, Callable[[Draw], Value]]] = {
    "name": ("string", lambda draw: name_or_new(draw, tables.NAMES)),
    "city": ("string", lambda draw: name_or_new(draw, tables.CITIES)),
    "word": ("string", lambda draw: _noun(draw)),
    "number": ("integer", lambda draw: draw.number(0, draw.any([9, 99, 999]))),
}
ONE = ("{verb} the {noun} for {{{key}}}", "{verb} the {noun} with {{{key}}}", "{verb} {{{key}}} by {noun}")
STATES = listed("done, started, ready, failed, planned, running")


def strange_family(draw: Draw) -> Family:
    """A verb, a thing and up to three parameters, which a question names or which are the only one."""
    verb, noun = draw.any(VERBS), _noun(draw)
    slots = dict(_slot(draw) for _ in range(draw.weighted({0: 1, 1: 4, 2: 3, 3: 1})))
    asked = _asked(draw, verb, noun, list(slots))
    return Family(
        verbs=Split((verb,)),
        nouns=Split((noun,)),
        purposes=(f"{verb} the {noun}".capitalize(), f"{verb} a {noun} of the user".capitalize()),
        slots=slots,
        asked=Split(
            (f"{asked}.", f"{asked[0].upper()}{asked[1:]}.", f"Please {asked}.", f"Can you {asked}?")
        ),
        result=lambda d: {"status": d.any(STATES)},
        answer=f"The {noun} is {{status}}.",
    )


def _asked(draw: Draw, verb: str, noun: str, keys: list[str]) -> str:
    """The request, with a place for each parameter."""
    if len(keys) == 1:
        return draw.any(ONE).format(verb=verb, noun=noun, key=keys[0])
    fields = draw.any([" and ", ", "]).join(f"{key} {{{key}}}" for key in keys)
    return f"{verb} the {noun}" + (f" with {fields}" if keys else "")


def _slot(draw: Draw) -> tuple[str, Slot]:
    kind = draw.any(list(VALUES))
    json_type, value = VALUES[kind]
    name = made_up_word(draw) if draw.chance(0.6) else draw.any([kind, f"{kind}_{made_up_word(draw)}"])
    return name, Slot(Split((name,)), json_type, f"The {name} of it", value)


def _noun(draw: Draw) -> str:
    return made_up_word(draw) if draw.chance(0.5) else draw.of(tables.THINGS)
