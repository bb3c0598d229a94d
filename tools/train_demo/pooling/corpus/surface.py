"""How people in a hurry write: small letters, no last mark, a word before."""

from __future__ import annotations

import re

from ...split import Draw

BEFORE = (
    "Please tell me:",
    "Hi,",
    "Can you tell me:",
    "I would like to know:",
    "Hello!",
    "Well,",
)
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")


def with_articles(text: str) -> str:
    """The text with "an" before vowels where a slot was filled behind "a"."""
    return ARTICLE.sub(r"\1n ", text)


def careless(draw: Draw, text: str) -> str:
    """The text, in three of ten cases less carefully written."""
    kind = draw.number(1, 20)
    if kind <= 2:
        return text.lower()
    if kind == 3:
        return text.rstrip("?.!")
    if kind == 4:
        return text.rstrip("?.!").lower()
    if kind == 5 and text.endswith("?"):
        return f"{draw.any(BEFORE)} {text}"
    if kind == 6:
        return text.upper()
    return text
