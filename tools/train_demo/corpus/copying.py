"""Turns that repeat, spell or join what the user wrote."""

from __future__ import annotations

from collections.abc import Callable

from ..conversation import Expectation, Turn
from ..split import Draw, Split, phrasings
from . import tables
from .invention import made_up_word, name_or_new

REPEAT = phrasings("""
    Please copy: {text}
    Please say: {text}
    Echo the following: {text}
    Please repeat this: {text}
    Repeat after me: {text}
    Repeat this: {text}
    Repeat: {text}
    Repeat the following: {text}
    Please repeat: {text}
    Say this: {text}
    Say: {text}
    Say "{text}"
    Say exactly: {text}
    Copy this: {text}
    Copy this text: {text}
    Echo: {text}
    Echo this: {text}
    Write this: {text}
    Can you repeat this? {text}
    * Please repeat after me: {text}
    * Please say this: {text}
    * Copy the following: {text}
    * Please echo: {text}
""")
TIMES = phrasings("""
    Can you write {word} {count} times?
    Could you repeat {word} {count} times?
    Please repeat the word {word} {count} times.
    Say the word {word} {count} times.
    Say {word} {count} times.
    Write {word} {count} times.
    Repeat the word {word} {count} times.
    Repeat {word} {count} times.
    Write the word {word} {count} times.
    Please say {word} {count} times.
    * Please write the word {word} {count} times.
    * Can you say {word} {count} times?
""")
SPELL = phrasings("""
    Could you spell {word}?
    Please spell {word}.
    Spell the word {word}.
    Spell {word}.
    How do you spell {word}?
    How is {word} spelled?
    Spell {word} for me.
    What are the letters of {word}?
    Can you spell {word}?
    * Please spell the word {word}.
    * Could you spell {word} for me?
""")
ONLY = phrasings("""
    Please say only {word}.
    Answer with the word {word}.
    Please reply with {word}.
    Answer only with the word {word}.
    Reply with the word {word}.
    Just say {word}.
    Only say {word}.
    Reply with {word} only.
    Say only {word}.
    * Please answer with the word {word}.
    * Reply only with the word {word}.
""")
SENTENCES = Split(
    (
        "The {a} is in the {b}.",
        "I like the {a} and the {b}.",
        "{name} has a {a}.",
        "{name} and {other} live in {city}.",
        "We go to {city} with {name}.",
        "The {a} of {name} is new.",
        "{name} sees a {a} and a {b}",
        "my {a} is lost",
        "{a} {b}",
        "{a}, {b} and {c}",
        "{a} {b} {c}",
        "{a} {number} {b}",
        "It is {number} o'clock in {city}.",
        "Good luck, {name}!",
        "Where is my {a}, {name}?",
        "{name}",
        "{number}",
    ),
    (
        "The {a} of {name} is in {city}.",
        "{name} buys {number} of them.",
        "This is a {a}, not a {b}.",
        "{city} is far away, {name}.",
        "{a} and {b}",
    ),
)
MORE_SENTENCES = (
    "{name} and {a}",
    "{a} {name} {b} {city}",
    "Is the {a} from {city}?",
    "{other} gives {number} to {name}.",
    "The {a} was {b}, said {name}.",
    "{city}, {a}, {name}",
    "{a} or {b} or {c}?",
    "No {a} without {b}!",
    "{name} found the {a} near {city} and took it home.",
)
TIMES_IN_WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}


def copying(draw: Draw) -> Turn:
    """One turn whose answer is made of the question's own words."""
    return draw.weighted(_KINDS if draw.held_out else _TRAINED_KINDS)(draw)


def _repeat(draw: Draw) -> Turn:
    sentences = draw.held_out or draw.chance(0.5)
    text = (draw.of(SENTENCES) if sentences else draw.any(MORE_SENTENCES)).format(
        a=_word(draw),
        b=_word(draw),
        c=_word(draw),
        name=name_or_new(draw, tables.NAMES),
        other=name_or_new(draw, tables.NAMES),
        city=name_or_new(draw, tables.CITIES),
        number=draw.number(0, 999),
    )
    return _exact(draw.phrase(REPEAT, text=text), text)


def _repeat_many(draw: Draw) -> Turn:
    """A row of words without sense, which can only be copied one by one."""
    text = " ".join(_strange(draw) for _ in range(draw.number(3, 9)))
    return _exact(draw.phrase(REPEAT, text=text), text)


def _strange(draw: Draw) -> str:
    if draw.held_out or draw.chance(0.2):
        return draw.of(draw.any([tables.COMMON_WORDS, tables.NAMES, tables.CITIES, tables.THINGS]))
    word = made_up_word(draw)
    return draw.any([word, word.capitalize(), str(draw.number(0, 999)), word])


def _times(draw: Draw) -> Turn:
    word, count = _word(draw), draw.number(2, 5)
    written = draw.any([str(count), TIMES_IN_WORDS[count]])
    return _exact(draw.phrase(TIMES, word=word, count=written), " ".join([word] * count))


def _spell(draw: Draw) -> Turn:
    word = draw.any(tables.COMMON_WORDS.seen)
    return _exact(draw.phrase(SPELL, word=word), "-".join(word.upper()))


def _only(draw: Draw) -> Turn:
    word = _word(draw)
    return _exact(draw.phrase(ONLY, word=word), word)


def _word(draw: Draw) -> str:
    if not draw.held_out and draw.chance(0.5):
        return made_up_word(draw)
    return draw.of(draw.any([tables.COMMON_WORDS, tables.THINGS]))


def _exact(question: str, answer: str) -> Turn:
    return Turn(question, answer, "I copy the words of the user.", Expectation("exact", answer))


_KINDS: dict[Callable[[Draw], Turn], float] = {_repeat: 5, _repeat_many: 6, _times: 2, _spell: 1, _only: 1}
_TRAINED_KINDS = {_repeat: 6, _repeat_many: 5, _times: 4, _spell: 1, _only: 1.5}
