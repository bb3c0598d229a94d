# ruff: noqa: E501 (rows of tables)
"""Short reviews with their sentiment: plain, negated, intensified, and turning round after a "but".

Where a review says two things, the last clause decides: so do most people when they write "but".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...split import Draw, Split, listed, phrasings
from .opinions import DOMAINS, INTENSE, MILD, WHOLE, WORDS
from .surface import careless, with_articles

LABELS = ("negative", "neutral", "positive")
OPPOSITE = {"positive": "negative", "negative": "positive"}

PLAIN = phrasings("""
    The {aspect} was {word}.
    The {aspect} is {word}.
    I think the {aspect} is {word}.
    I found the {aspect} {word}.
    We thought the {aspect} was {word}.
    {word} {aspect}.
    This {item} has a {aspect} that is {word}.
    This {item} is {word}.
    The {item} was {word}.
    It was {word}.
    It is {word}.
    In my opinion this {item} is {word}.
    The {aspect} of this {item} is {word}.
    Overall the {item} was {word}.
    Everything about the {aspect} was {word}.
    My wife says the {aspect} is {word}.
    If you ask me, the {aspect} was {word}.
    The {aspect} seemed {word} to me.
    To me the {aspect} was {word}.
    Overall, a {item} that was {word}.
    The {aspect} proved to be {word}.
    As to the {aspect}, it was {word}.
    I call the {aspect} {word}.
    I must say that the {aspect} was {word}.
    The {aspect} looked {word}.
    What a {word} {item}!
    {word}!
    A {word} {item}.
    We had a {word} time.
    They have a {word} {aspect}.
    {word} {aspect} and {word} {other}.
    My experience was {word}.
    The people there are {word}.
    * To my mind the {aspect} is {word}.
    * All in all, a {word} {item}.
    * The {aspect} turned out to be {word}.
    * As for the {aspect}, it is {word}.
    * I would call the {aspect} {word}.
    * It was a {word} experience.
""")
NEGATED = phrasings("""
    The {aspect} was not {word}.
    The {aspect} is not {word} at all.
    The {aspect} isn't {word}.
    The {aspect} wasn't {word}.
    I don't think the {aspect} is {word}.
    I did not find the {aspect} {word}.
    This {item} is not {word}.
    It was never {word}.
    It is anything but {word}.
    The {aspect} is far from {word}.
    Nobody can call this {item} {word}.
    I can't say that the {aspect} was {word}.
    There was nothing {word} about the {aspect}.
    Not {word}.
    Not {word} at all.
    The {item} was hardly {word}.
    The {aspect} was in no way {word}.
    I would not call the {aspect} {word}.
    By no means is the {aspect} {word}.
    The {aspect} did not seem {word} to me.
    No one can say that the {item} is {word}.
    The {aspect} doesn't look {word}.
    Nothing about it was {word}.
    It is not a {word} {item}.
    We did not have a {word} time.
    None of it was {word}.
    The {aspect} could hardly be called {word}.
    It never felt {word}.
    * In no way was the {aspect} {word}.
    * I wouldn't call this {item} {word}.
    * The {aspect} was by no means {word}.
    * The {aspect} didn't seem {word} to me.
    * No one would say the {item} is {word}.
    * This is not a {word} {item}.
""")
TURNS = phrasings("""
    {first}, but {second}
    {first}, however {second}
    {first}. But {second}
    {first}. Still, {second}
    {first}, yet {second}
    Although {first}, {second}
    Even though {first}, {second}
    {first}. In the end {second}
    While it is true that {first}, {second}
    Despite the fact that {first}, {second}
    {first}. Nonetheless, {second}
    {first}. All the same, {second}
    {first} at first, but then {second}
    I heard that {first}, but {second}
    I thought that {first}, but {second}
    True, {first}, but {second}
    * Though {first}, {second}
    * {first}. However, {second}
    * {first}, but all in all {second}
    * {first}, but still {second}
""")
BALANCED = phrasings("""
    The {aspect} was {good} and the {other} was {bad}, so it evens out.
    {good} {aspect}, {bad} {other}: three stars.
    Some parts were {good}, some were {bad}.
    I liked the {aspect} and disliked the {other}, so I am not sure.
    A mixed bag: the {aspect} is {good}, the {other} is {bad}.
    The {aspect} is neither {good} nor {bad}.
    Half of it was {good}, the other half {bad}.
    Not {good}, not {bad}.
    Not {good}, but not {bad} either.
    On the one hand the {aspect} is {good}, on the other hand the {other} is {bad}.
    Sometimes it is {good}, sometimes it is {bad}.
    At times {good}, at times {bad}.
    Partly {good}, partly {bad}.
    One day {good}, the next day {bad}.
    It is not {good}, yet it is not {bad}.
    The {aspect} is {good}, the {other} is {bad}, so I give it three stars.
    I can't say that it is {good}, and I can't say that it is {bad}.
    * On the one hand {good} {aspect}, on the other hand {bad} {other}.
    * Sometimes {good}, sometimes {bad}.
    * The {aspect} is not {good}, and not {bad} either.
    * The {aspect} was neither {good} nor {bad}.
""")
TWICE = phrasings("""
    The {aspect} was {word} and the {other} was {word2}.
    {word} {aspect}, {word2} {other}.
    Both the {aspect} and the {other} were {word}.
    The {aspect} is {word}, and so is the {other}.
    I found it {word} and {word2}.
    The {aspect}, the {other}: everything {word}.
    It was {word}, even {word2}.
    {word}, {word2}!
    A {item} that is {word} and also {word2}.
    * The {aspect}, the {other}: all {word}.
    * It was both {word} and {word2}.
    * {word} and {word2}.
""")
OPENINGS = phrasings("""
    Honestly,
    To be honest,
    Well,
    So
    Update:
    Let me say that
    I just want to say that
    Okay,
    My review:
    * Frankly,
    * In short:
""")
NEGATABLE = {
    "positive": listed(
        "good, great, impressive, enjoyable, nice, helpful, friendly, reliable, comfortable, fun, exciting, pleasant"
    ),
    "negative": listed(
        "bad, terrible, boring, disappointing, awful, slow, confusing, horrible, poor, ugly, dull"
    ),
}


@dataclass(frozen=True)
class Review:
    """`label` is one of LABELS."""

    text: str
    label: str


@dataclass(frozen=True)
class Subject:
    """What one review is about."""

    item: str
    aspects: Split[str]


def review(draw: Draw) -> Review:
    """One review, each label as often as the others, perhaps carelessly written."""
    label = draw.any(LABELS)
    items, aspects = draw.any(list(DOMAINS.values()))
    subject = Subject(draw.any(listed(items)), aspects)
    parts = [_capital(_clause(draw, label, subject))]
    if draw.chance(0.3):
        extra = _clause(draw, "neutral" if draw.chance(0.3) else label, subject)
        parts.insert(draw.number(0, 1), _capital(extra))
    return Review(careless(draw, with_articles(_opened(draw, " ".join(parts)))), label)


def _opened(draw: Draw, text: str) -> str:
    """The text, at times after a word or two that mean nothing."""
    return f"{draw.phrase(OPENINGS)} {_inner(text)}" if draw.chance(0.12) else text


def _clause(draw: Draw, label: str, subject: Subject) -> str:
    if label == "neutral":
        kinds = {_plain: 4, _whole: 5, _balanced: 3}
    else:
        kinds = {_plain: 5, _whole: 4, _negated: 4, _turned: 4, _twice: 2}
    return draw.weighted(kinds)(draw, label, subject)


def _plain(draw: Draw, label: str, subject: Subject) -> str:
    word = draw.of(WORDS[label])
    if label != "neutral":
        word = draw.weighted({word: 5, f"{draw.of(INTENSE)} {word}": 4, f"{draw.of(MILD)} {word}": 1})
    return _about(draw, subject, draw.phrase(PLAIN, word=word, **_slots()))


def _whole(draw: Draw, label: str, subject: Subject) -> str:
    return _about(draw, subject, draw.phrase(WHOLE[label], **_slots()))


def _negated(draw: Draw, label: str, subject: Subject) -> str:
    """A word of the other side, denied."""
    word = draw.any(NEGATABLE[OPPOSITE[label]])
    if label == "negative" and draw.chance(0.3):
        word = f"{draw.any(('very', 'really', 'that', 'so'))} {word}"
    return _about(draw, subject, draw.phrase(NEGATED, word=word, **_slots()))


def _turned(draw: Draw, label: str, subject: Subject) -> str:
    first = _simple(draw, OPPOSITE[label], subject).rstrip(".!")
    second = _simple(draw, label, subject)
    return _capital(draw.phrase(TURNS, first=_inner(first), second=_inner(second)))


def _simple(draw: Draw, label: str, subject: Subject) -> str:
    return draw.weighted({_plain: 3, _whole: 2, _negated: 1})(draw, label, subject)


def _twice(draw: Draw, label: str, subject: Subject) -> str:
    word, word2 = draw.of(WORDS[label]), draw.of(WORDS[label])
    return _about(draw, subject, draw.phrase(TWICE, word=word, word2=word2, **_slots()))


def _balanced(draw: Draw, label: str, subject: Subject) -> str:
    good, bad = (draw.any(NEGATABLE[side]) for side in ("positive", "negative"))
    return _about(draw, subject, draw.phrase(BALANCED, good=good, bad=bad, **_slots()))


def _slots() -> dict[str, str]:
    return {slot: f"{{{slot}}}" for slot in ("item", "aspect", "other")}


def _about(draw: Draw, subject: Subject, text: str) -> str:
    """The text about the subject and two of its aspects."""
    aspect, other = draw.of(subject.aspects), draw.of(subject.aspects)
    return text.format(item=subject.item, aspect=aspect, other=other)


def _inner(text: str) -> str:
    """As it is written within a sentence."""
    return text if text.startswith(("I ", "I'")) else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
