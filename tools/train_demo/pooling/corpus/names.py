# ruff: noqa: E501 (rows of tables)
"""Names of invented things, by kind; one name in eight is held out."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from ...split import Draw, listed

STARTS = listed(
    """Al, An, Ar, Bal, Bel, Ber, Bor, Bra, Cal, Car, Cas, Cor, Dal, Dar, Del, Dor, Dun, El, Em, Er, Fal,
    Fen, Fer, Gal, Gar, Gil, Gor, Hal, Har, Hel, Hol, Is, Jar, Jor, Kal, Kar, Kel, Kin, Kor, Lan, Lar, Len,
    Lin, Lor, Mal, Mar, Mel, Mer, Mor, Nar, Nel, Nor, Ol, Or, Os, Pal, Par, Pel, Por, Quin, Ral, Ran, Rel,
    Ros, Sal, San, Sel, Sor, Tal, Tan, Tar, Tel, Tor, Ul, Ur, Val, Van, Var, Vel, Ver, Vol, Wal, Wen, Wil,
    Yar, Zan, Zel, Zor"""
)
MIDDLES = listed("a, e, i, o, u, an, en, in, ar, er, or, and, ith, ov, ev, im, am, el, al, os")
ENDS = listed(
    """bach, bury, by, dale, den, dor, fell, ford, gard, ham, ia, ick, ing, ka, lund, mar, mere, mond, na, nis,
    ora, ra, rin, ros, sk, son, stad, sted, ta, thal, ton, tor, va, vik, ville, wen, wick, worth, xa, zen"""
)
FIRST = listed(
    """Anna, Maria, Peter, Paul, John, James, Laura, Sarah, David, Daniel, Emma, Alice, Robert, Thomas, Lucy,
    Helen, George, Henry, Clara, Nina, Oscar, Victor, Martin, Simon, Julia, Grace, Ivan, Omar, Fatima, Chen,
    Yuki, Ravi, Priya, Carlos, Elena, Marco, Sofia, Ahmed, Leila, Samuel, Ruth, Walter, Irene, Hugo, Nadia,
    Felix, Greta, Arthur, Joan, Miriam"""
)
ADJECTIVES = listed(
    """Silent, Broken, Golden, Hidden, Last, Long, Burning, Empty, Crimson, Distant, Frozen, Gentle, Hollow,
    Lonely, Lost, Painted, Quiet, Restless, Secret, Sleeping, Stolen, Bitter, Wandering, White, Black, Blue,
    Green, Red, Silver, Final, First, Second, Endless, Forgotten, Hungry, Invisible, Midnight, Northern"""
)
NOUNS = listed(
    """Harbour, River, Garden, Letter, Winter, Mirror, Road, Island, Kingdom, Orchard, Sailor, Shadow, Bridge,
    Clock, Daughter, Forest, Lantern, Mountain, Night, Ocean, Promise, Queen, Rain, Stranger, Summer, Tower,
    Train, Valley, Voyage, Window, Witness, Wolf, Bell, Castle, Desert, Dream, Fire, Guest, House, Journey"""
)
PATTERNS: dict[str, tuple[str, ...]] = {
    "town": ("{name}", "{name}", "New {name}", "Port {name}", "Saint {first}", "{name} Falls"),
    "country": ("{name}", "{name}", "the Republic of {name}", "the Kingdom of {name}"),
    "island": ("the island of {name}", "{name} Island", "the Isle of {name}"),
    "river": ("the river {name}", "the {name} River", "the {name}"),
    "lake": ("Lake {name}", "the lake of {name}", "{name} Lake"),
    "mountain": ("Mount {name}", "{name} Peak", "the {name}horn"),
    "building": ("{name} Castle", "the {name} Palace", "{name} Hall", "the church of {name}"),
    "museum": ("the {name} Museum", "the Museum of {name}", "the {name} Gallery"),
    "library": ("the {name} Library", "the public library of {name}"),
    "tower": ("the {name} Tower", "{name} Tower", "the {name} lighthouse"),
    "bridge": ("the {name} Bridge", "{name} Bridge"),
    "railway": ("the {name} Railway", "the {name} Line"),
    "trail": ("the {name} Trail", "the {name} Way"),
    "company": ("{name} Industries", "{name} & Sons", "{name} Ltd", "{name} Systems", "{name}"),
    "shop": ("{first}'s Bakery", "the {name} Bookshop", "{name} Market", "Cafe {name}"),
    "school": ("{name} College", "the University of {name}", "the {name} Academy"),
    "club": ("{name} United", "{name} City", "the {name} Rovers", "FC {name}"),
    "festival": ("the {name} Festival", "the {name} Fair", "{name} Days", "the Feast of {name}"),
    "person": ("{first} {name}", "{first} {name}", "{first} {name}", "Dr. {first} {name}", "{name}"),
    "book": ("The {adjective} {noun}", "The {noun} of {name}", "A {adjective} {noun}"),
    "film": ("The {adjective} {noun}", "{noun} of {name}", "{adjective} {noun}s"),
    "series": ("The {noun}s of {name}", "{adjective} {noun}"),
    "song": ('"{adjective} {noun}"', '"The {noun} Song"', '"My {adjective} {noun}"'),
    "album": ("{adjective} {noun}", '"{noun} and {noun}"'),
    "poem": ('"The {adjective} {noun}"', '"Ode to the {noun}"'),
    "band": ("the {adjective} {noun}s", "The {name}s"),
    "game": ("{name} Quest", "{adjective} {noun}", "{name} Poker"),
    "device": ("the {name} {small}", "the {name} phone", "the {name} X{small}", "the {name} camera"),
    "animal": (
        "the {name} fox",
        "the {name} owl",
        "the {adjective} frog",
        "the {name} deer",
        "the {name} bat",
    ),
    "plant": (
        "the {name} rose",
        "the {name} lily",
        "the {adjective} fern",
        "the {name} oak",
        "the {name} orchid",
    ),
    "dish": ("{name} soup", "{name} stew", "{name} pie", "{name} noodles", "{adjective} dumplings"),
    "drink": ("{name} tea", "{name} lemonade", "{adjective} punch"),
    "medicine": ("{name}in", "{name}ol", "{name}ax"),
}
"""Kind of thing → how its names are built."""
PRONOUNS = {"person": ("She", "Her"), "band": ("They", "Their")}


@dataclass(frozen=True)
class Thing:
    """Something that sentences are about; `word` is the part of its name that others share least."""

    name: str
    kind: str
    word: str


def is_held_out(word: str) -> bool:
    """Whether no training text is about things of this name: one in eight, by its checksum."""
    return zlib.crc32(word.lower().encode()) % 8 == 0


def thing(draw: Draw, kind: str, word: str | None = None) -> Thing:
    """A thing of a kind with a name of the draw's side; with `word` in its name where the kind allows."""
    pattern = draw.any(PATTERNS[kind])
    while True:
        chosen = word or invented(draw)
        slots = {
            "name": chosen,
            "first": draw.any(FIRST),
            "adjective": draw.any(ADJECTIVES),
            "noun": draw.any(NOUNS),
            "small": draw.number(2, 90),
        }
        name = pattern.format(**slots)
        if word is not None or is_held_out(name) == draw.held_out:
            return Thing(name, kind, chosen)


def invented(draw: Draw) -> str:
    """A word in the manner of names, like "Velmora" or "Tarnick"."""
    middle = draw.any(MIDDLES) if draw.chance(0.5) else ""
    return draw.any(STARTS) + middle + draw.any(ENDS)
