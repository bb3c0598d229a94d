"""Turns that sort a short review into positive or negative."""

from __future__ import annotations

from ..conversation import Turn, contains
from ..split import Draw, Split, listed, phrasings
from .invention import made_up_word

JUDGE = phrasings("""
    Say whether this is positive or negative: {review}
    Classify this text: {review} Is it positive or negative?
    What is the sentiment here? {review}
    Is this review positive or negative? {review}
    Is this positive or negative? {review}
    Positive or negative: {review}
    Classify the sentiment: {review}
    Classify this review as positive or negative: {review}
    What is the sentiment of this text? {review}
    Sentiment: {review}
    Tell me if this is positive or negative: {review}
    Is the following text positive or negative? {review}
    * What is the sentiment of this review? {review}
    * Say if this review is positive or negative: {review}
    * Classify this text as positive or negative: {review}
""")
REVIEWS = Split(
    (
        "The {subject} was {word}.",
        "I think the {subject} is {word}.",
        "What a {word} {subject}!",
        "This {subject} is really {word}.",
        "{word} {subject}.",
        "We found the {subject} {word}.",
        "The {subject} was {word} and I will tell my friends.",
        "It was a {word} {subject}.",
    ),
    ("My {subject} was {word}.", "A truly {word} {subject}.", "The {subject} is so {word}!"),
)
SUBJECTS = Split(
    listed(
        """film, food, hotel, book, service, phone, game, music, room, movie, restaurant, product,
        coffee, show, car"""
    ),
    ("concert", "lunch", "laptop"),
)
TONES = {
    "positive": listed(
        """great, wonderful, excellent, good, fantastic, lovely, amazing, perfect, beautiful, brilliant,
        nice, delightful, superb"""
    ),
    "negative": listed(
        """bad, terrible, awful, horrible, boring, poor, disappointing, ugly, broken, dreadful,
        disgusting, useless, worst"""
    ),
}


def judging(draw: Draw) -> Turn:
    """A review and its sentiment."""
    tone = draw.any(list(TONES))
    word = draw.any(TONES[tone])
    strange = not draw.held_out and draw.chance(0.4)
    subject = made_up_word(draw) if strange else draw.of(SUBJECTS)
    review = draw.of(REVIEWS).format(subject=subject, word=word)
    review = review[0].upper() + review[1:]
    thought = f"The word {word} is {tone}."
    question = draw.phrase(JUDGE, review=review)
    return Turn(question, f"The sentiment is {tone}.", thought, contains(tone), short=tone.capitalize())
