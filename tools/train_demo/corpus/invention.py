"""Words that nobody has seen, so that the model must copy rather than remember."""

from __future__ import annotations

from ..split import Draw, Split, listed

ONSETS = listed(
    """b, c, d, f, g, h, j, k, l, m, n, p, r, s, t, v, w, z, br, ch, cl, cr, dr, fl, gr, kl, kr,
    pl, pr, sh, sk, sl, st, th, tr"""
)
VOWELS = listed("a, e, i, o, u, ai, ea, ee, ia, io, oa, ou")
ENDINGS = ["", "", "n", "r", "s", "l", "t", "m", "nd", "rk", "x", "ck", "ng"]


def made_up_word(draw: Draw) -> str:
    """Two or three syllables in lower case, like "brovan"."""
    syllables = draw.number(1, 2)
    start = "".join(draw.any(ONSETS) + draw.any(VOWELS) for _ in range(syllables))
    return start + draw.any(ONSETS) + draw.any(VOWELS) + draw.any(ENDINGS)


def name_or_new(draw: Draw, known: Split[str]) -> str:
    """A known name, or in training often a made-up one with a capital letter."""
    if not draw.held_out and draw.chance(0.4):
        return made_up_word(draw).capitalize()
    return draw.of(known)
