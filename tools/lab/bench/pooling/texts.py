"""Makes texts for embedding models with a realistic mix of lengths."""

from __future__ import annotations

import random

MEAN_LOG_WORDS, SPREAD = 3.3, 0.85
"""The logarithms of texts' lengths in words, which are about normal: half are shorter than 27 words."""
LEAST_WORDS, MOST_WORDS = 2, 180
SENTENCE_WORDS = (4, 18)
COMMON = """
the a of to and in that it is was for on with as his they at be this from have or by one had not but what
all were when we there can an your which their said if will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people
my made over did down only way find use may water long little very after words called just where most know
get through back much before go good new write our used me man too any day same right look think also around
another came come work three word must because does part even place well such here take why things help put
years different away again off went old number great tell men say small every found still between name
should home big give air line set own under read last never us left end along while might next sound below
saw something thought both few those always looked show large often together asked house don't world going
want school important until form food keep children feet land side without boy once animals life enough took
sometimes four head above kind began almost live page got earth need far hand high year mother light parts
country father let night following picture being study second eyes soon times story boys since white days
ever paper hard near sentence better best across during today others however sure means knew it's try told
young miles sun ways thing whole hear example heard several change answer room sea against top turned learn
point city play toward five using himself usually money seen didn't car morning given trees engineering
laboratory temperature committee government analysis protein election
"""
WORDS = COMMON.split()


def make_texts(count: int, seed: int) -> list[str]:
    """`count` texts of sentences; the same for the same seed."""
    draw = random.Random(seed)
    return [_text(draw, _length(draw)) for _ in range(count)]


def _length(draw: random.Random) -> int:
    return max(LEAST_WORDS, min(MOST_WORDS, round(draw.lognormvariate(MEAN_LOG_WORDS, SPREAD))))


def _text(draw: random.Random, num_words: int) -> str:
    sentences = []
    while num_words > 0:
        words = draw.choices(WORDS, k=min(num_words, draw.randint(*SENTENCE_WORDS)))
        num_words -= len(words)
        sentences.append(" ".join(words).capitalize() + ".")
    return " ".join(sentences)
