"""Two questions of which the second leaves out what the first one asked: "And of Italy?"."""

from __future__ import annotations

from ..conversation import Turn, contains
from ..split import Draw, phrasings
from . import tables
from .facts import CAPITAL_OF, LANGUAGE_OF

AND = phrasings("""
    And of {place}?
    And {place}?
    and {place}?
    What about {place}?
    And for {place}?
    And in {place}?
    And the one of {place}?
    How about {place}?
    {place}?
    Now {place}.
    The same for {place}.
    * And what about {place}?
    * Now for {place}.
""")


def followed(draw: Draw) -> list[Turn]:
    """Two turns about capitals or about languages."""
    first, second = draw.some(tables.COUNTRIES, 2)
    if draw.chance(0.6):
        asked, answer, of = CAPITAL_OF, "The capital of {place} is {value}.", lambda country: country.capital
    else:
        asked, answer, of = LANGUAGE_OF, "People in {place} speak {value}.", lambda country: country.language
    turns = []
    for phrase, country in ((asked, first), (AND, second)):
        place, value = tables.with_article(country.name), of(country)
        thought = f"The user asks about {place}."
        text = answer.format(place=place, value=value)
        turns.append(Turn(draw.phrase(phrase, place=place), text, thought, contains(value)))
    return turns
