"""Words that nobody has seen, so that the model must copy rather than remember.

They are of four kinds, so that every piece of the vocabulary has to be copied now and then: heads
and tails of known words joined, pieces from inside of them, syllables, and letters at random.
"""

from __future__ import annotations

from ..split import Draw, Split, listed
from . import tables

ONSETS = listed(
    """b, c, ch, cl, cr, d, dr, f, fl, fr, g, gl, gr, h, j, k, l, m, n, p, pl, pr, qu, r, s, sc, sh, sl,
    sm, sn, sp, spr, st, str, sw, t, th, tr, tw, v, w, wh, y, z"""
)
VOWELS = listed("a, e, i, o, u, a, e, i, o, ai, ay, au, ea, ee, ie, io, oa, oo, ou, ow, y")
CODAS = listed(
    """b, ck, d, dge, ff, g, l, ll, ld, lt, m, mp, n, nd, ng, nk, nt, p, r, rd, rk, rn, rt, s, sh, ss, st,
    t, tch, tion, th, x, ze, me, ne, te, ver, ter, der, ment, ing, ica, ia, us, er, en, el, le, ard"""
)
LETTERS = "eeeeaaaiiooonnnrrrtttlllsssddccuummpphhggbbffyywwkkvvxzjq"


def made_up_word(draw: Draw) -> str:
    """A word in lower case, like "brovan", "umbregon" or "tkelas"; never one that is held out."""
    word = draw.weighted(_HELD_OUT_KINDS if draw.held_out else _KINDS)(draw)
    return made_up_word(draw) if word in _HELD_OUT else word


def name_or_new(draw: Draw, known: Split[str]) -> str:
    """A known name, or in training often a made-up one with a capital letter."""
    if not draw.held_out and draw.chance(0.5):
        return made_up_word(draw).capitalize()
    return draw.of(known)


def _blend(draw: Draw) -> str:
    head, tail = draw.some(_KNOWN, 2)
    return (head[: draw.number(1, 4)] + tail[-draw.number(2, 5) :]).lower()


def _pieces(draw: Draw) -> str:
    return "".join(_piece(draw, draw.any(_KNOWN)) for _ in range(draw.any([2, 2, 3])))


def _piece(draw: Draw, word: str) -> str:
    start = draw.number(0, len(word) - 2)
    return word[start : start + draw.number(2, 4)].lower()


def _syllables(draw: Draw) -> str:
    start = "".join(draw.any(ONSETS) + draw.any(VOWELS) for _ in range(draw.number(0, 1)))
    return start + draw.any(ONSETS) + draw.any(VOWELS) + draw.any(CODAS)


def _letters(draw: Draw) -> str:
    return "".join(draw.any(LETTERS) for _ in range(draw.number(3, 7)))


def _known_words() -> list[str]:
    """Every word of the tables that may be trained on, once."""
    phrases = [phrase for pool in _POOLS for phrase in pool.seen]
    phrases += [name for country in tables.COUNTRIES for name in country]
    phrases += [*tables.MONTHS, *tables.DAYS, *tables.PLANETS, *tables.OPPOSITES, *tables.ORDINALS]
    words = {word for phrase in phrases for word in phrase.split() if word.isalpha() and len(word) > 2}
    return sorted(words)


_POOLS = (tables.NAMES, tables.CITIES, tables.JOBS, tables.THINGS, tables.COMMON_WORDS)
_HELD_OUT = {phrase.lower() for pool in _POOLS for phrase in pool.unseen}
_KNOWN = _known_words()
_HELD_OUT_KINDS = {_blend: 5, _syllables: 4, _letters: 1}
_KINDS = {_blend: 4, _pieces: 4, _syllables: 2, _letters: 1}
