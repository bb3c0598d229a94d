# ruff: noqa: E501 (rows of tables)
"""Fills the slots of what is told: numbers, dates, people, places, stuff."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...corpus.tables import COUNTRIES, MONTHS
from ...split import Draw, listed
from .names import FIRST, invented

SLOT = re.compile(r"\{(\w+)\}")
COUNTS = listed("one, two, three, four, five, six, seven, eight, nine, ten, twelve")
DAYS = listed("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
LISTS = {
    "month": tuple(MONTHS),
    "day": DAYS,
    "count": COUNTS,
    "season": listed("spring, summer, autumn, winter"),
    "coin": listed("crown, florin, peso, dinar, franc, mark, shilling, ducat, guilder, krona, real, rupee"),
    "material": listed(
        "oak, granite, red brick, steel, concrete, marble, glass, sandstone, iron, pine wood, limestone, copper"
    ),
    "things": listed(
        """old clocks, paintings, coins, ship models, carpets, bicycles, radios, shoes, furniture, toys, lamps,
        kitchen tools, maps, stamps, steam engines, musical instruments, hats, telescopes, swords, pottery,
        glass vases, tractors, watches, batteries, windows, paper, boats, guitars"""
    ),
    "thing": listed(
        """bicycle, lamp, stove, ladder, umbrella, clock, chair, pump, ring, crown, letter, map, violin, sword,
        mirror, key, camera, boat, kettle, drum"""
    ),
    "job": listed(
        """teacher, nurse, baker, painter, engineer, carpenter, lawyer, farmer, pilot, singer, journalist,
        chemist, architect, dentist, gardener, sailor, detective, librarian, physicist, cook, tailor, soldier"""
    ),
    "pastime": listed(
        """chess, fishing, hiking, playing the piano, gardening, knitting, swimming, cycling, reading novels,
        collecting stamps, cooking, dancing, photography, bird watching, sailing, painting"""
    ),
    "colour": listed(
        "red, green, dark blue, yellow, black, white, brown, grey, orange, purple, pink, silver"
    ),
    "food": listed(
        """rice, beans, potatoes, tomatoes, chicken, beef, fish, mushrooms, onions, carrots, cheese, eggs, milk,
        noodles, apples, berries, nuts, insects, grass, seeds, shrimp, cabbage, lemon, honey, flour, butter"""
    ),
    "spice": listed("pepper, salt, ginger, garlic, cinnamon, mint, saffron, basil, chili, vanilla, thyme"),
    "real_country": tuple(country.name for country in COUNTRIES),
    "real_language": tuple(sorted({country.language for country in COUNTRIES})),
}


def fill(draw: Draw, pattern: str) -> str:
    """The pattern with every `{slot}` filled in anew."""
    return SLOT.sub(lambda slot: _value(draw, slot[1]), pattern)


def _value(draw: Draw, slot: str) -> str:
    return draw.any(LISTS[slot]) if slot in LISTS else MAKERS[slot](draw)


def _place(draw: Draw, list_name: str) -> str:
    return draw.any(LISTS[list_name]) if draw.chance(0.5) else invented(draw)


def _number(draw: Draw) -> str:
    number = draw.number(101, 999) if draw.chance(0.4) else draw.number(1000, 99000)
    return f"{number:,}" if draw.chance(0.6) else str(number)


MAKERS: dict[str, Callable[[Draw], str]] = {
    "number": _number,
    "small": lambda draw: str(draw.number(2, 99)),
    "year": lambda draw: str(draw.number(1480, 2024)),
    "hour": lambda draw: f"{draw.number(6, 11)}{draw.any((' am', ' o’clock', ':30', ''))}",
    "hour2": lambda draw: f"{draw.number(4, 11)}{draw.any((' pm', ' o’clock', ':30', ''))}",
    "name": invented,
    "town": invented,
    "company": lambda draw: invented(draw) + draw.any((" Industries", " & Sons", " Ltd", "", " Brothers")),
    "person": lambda draw: f"{draw.any(FIRST)} {invented(draw)}",
    "country": lambda draw: _place(draw, "real_country"),
    "language": lambda draw: draw.any(LISTS["real_language"]) if draw.chance(0.7) else invented(draw) + "ish",
}
