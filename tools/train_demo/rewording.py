"""Other ways to write a trained phrasing, so that a model learns words rather than whole lines.

A phrasing that is held out is never the result.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

IMPERATIVES = frozenset(
    re.findall(
        r"\w+",
        """add answer book calculate call change check compute convert copy count create describe
        divide echo email explain extract fetch fill find get give introduce list look mail
        make multiply play put read remember remind repeat reply return say schedule search
        send set show solve spell start subtract switch take tell track translate turn use
        wake work write""",
    )
)
OPENINGS = (
    "Please", "please", "Please", "Can you", "Could you", "Would you", "Could you please", "I want you to",
    "I need you to", "Now", "Your task: please", "Kindly", "Hey! Please", "Hello. Can you", "Let us",
)  # fmt: skip
TEXT_LAST = re.compile(r"^([^{].*(?:JSON|schema).*): \{text\}$")


def reworded(phrasing: str, unseen: Sequence[str], source: random.Random) -> str:
    """`phrasing` in another order or with a polite opening, where its form allows one."""
    written = _opened(_turned(phrasing, source), source)
    return phrasing if _letters(written) in map(_letters, unseen) else written


def _turned(phrasing: str, source: random.Random) -> str:
    """The text before the task instead of behind it."""
    found = TEXT_LAST.match(phrasing)
    if found is None or source.random() < 0.5:
        return phrasing
    return "{text}" + source.choice([" ", "\n", "\n\n"]) + found[1] + source.choice([".", "", ":"])


def _opened(phrasing: str, source: random.Random) -> str:
    verb, _, rest = phrasing.partition(" ")
    if verb.lower().rstrip(":") not in IMPERATIVES or not rest or source.random() < 0.3:
        return phrasing
    opening = source.choice(OPENINGS)
    asks = opening.endswith("you") and rest.endswith(".")
    return f"{opening} {verb.lower()} {rest.removesuffix('.') + '?' if asks else rest}"


def _letters(text: str) -> str:
    return re.sub(r"[^a-z{}]", "", text.lower())
