# ruff: noqa: E501 (rows of words)
"""Words around a sentence that say nothing about what it tells, so that a place in a text means nothing."""

from __future__ import annotations

from ..split import Draw, listed

LEADS = listed(
    "They say that, I think, You know that, Yesterday I read that, We all know that, It is true that, It seems that"
)
BEFORE = (
    "Listen.", "Good news!", "It was a long day.", "Some news:", "Note:", "Today", "By the way,", "As you know,",
    "In fact,", "Well,", "Dear all,", "Yesterday", "Finally", "For once", "At last", "Hello,",
    "Here is what happened.",
)  # fmt: skip
AFTER = (
    "That is all.", "It rains.", "Thank you!", "This is good.", "See you soon.", "Nothing else is new.",
    "I am glad.", "Please tell nobody.", "Yes, really!", "We will see.",
)  # fmt: skip
SMALL_INSIDE = set(
    listed(
        "The, A, At, In, On, There, We, Her, His, She, He, My, Our, This, It, They, You, From, By, As, When, With"
    )
)
SHARE = 0.3


def disturbed(draw: Draw, text: str) -> str:
    """A training text, at times with something before or behind it."""
    if draw.held_out or not draw.chance(SHARE):
        return text
    kind = draw.any(["lead", "before", "after"])
    if kind == "after":
        return f"{text} {draw.any(AFTER)}"
    if kind == "lead":
        first = text.split(" ", 1)[0]
        text = text[0].lower() + text[1:] if first in SMALL_INSIDE else text
        return f"{draw.any(LEADS)} {text}"
    return f"{draw.any(BEFORE)} {text}"
