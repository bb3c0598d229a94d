"""The adapter `french`: small English sentences in French, which the demo model itself does not write.

Of the pairs of an adjective and a noun one in five is held out: no training sentence has it, so its gender,
number and place in a sentence must be known from other pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from ..conversation import Conversation, Expectation
from ..corpus import HELD_OUT_SEED
from ..split import Draw, phrasings

SKILL = "french"
HELD_OUT_ONE_IN = 5
NUM_HELD_OUT = 200
MAX_TURNS = 3
ASKED = phrasings("""
    {text}
    {text}
    {text}
    {text}
    Translate into French: {text}
    Translate to French: {text}
    Translate this into French. {text}
    In French: {text}
    What is this in French? {text}
    French, please: {text}
    Say it in French: {text}
    * Please translate this into French: {text}
    * How do you say this in French? {text}
    * Give me the French for this: {text}
""")


class Noun(NamedTuple):
    english: str
    french: str
    is_feminine: bool = False


class Adjective(NamedTuple):
    """`is_before`: it stands before its noun, as few do."""

    english: str
    masculine: str
    feminine: str
    is_before: bool = False


class Verb(NamedTuple):
    """English with he, and without; French with je, tu, il, nous and ils."""

    english: tuple[str, str]
    french: tuple[str, str, str, str, str]


class Words(NamedTuple):
    """The same words in both languages."""

    english: str
    french: str


NOUNS = [
    *(Noun(*pair) for pair in (
        ("cat", "chat"), ("dog", "chien"), ("horse", "cheval"), ("book", "livre"), ("bird", "oiseau"),
        ("tree", "arbre"), ("garden", "jardin"), ("train", "train"), ("boat", "bateau"), ("friend", "ami"),
        ("brother", "frère"), ("hat", "chapeau"),
    )),
    *(Noun(*pair, True) for pair in (
        ("house", "maison"), ("car", "voiture"), ("flower", "fleur"), ("apple", "pomme"), ("table", "table"),
        ("school", "école"), ("sister", "sœur"), ("key", "clé"), ("door", "porte"), ("shirt", "chemise"),
        ("lamp", "lampe"), ("cow", "vache"),
    )),
]  # fmt: skip
LIVING = [
    noun
    for noun in NOUNS
    if noun.english in {"cat", "dog", "horse", "bird", "friend", "brother", "sister", "cow"}
]
PLURALS = {"cheval": "chevaux", "oiseau": "oiseaux", "bateau": "bateaux", "chapeau": "chapeaux"}
ADJECTIVES = [
    *(Adjective(*three, True) for three in (
        ("big", "grand", "grande"), ("small", "petit", "petite"), ("pretty", "joli", "jolie"),
        ("young", "jeune", "jeune"),
    )),
    *(Adjective(*three) for three in (
        ("red", "rouge", "rouge"), ("black", "noir", "noire"), ("white", "blanc", "blanche"),
        ("green", "vert", "verte"), ("blue", "bleu", "bleue"), ("sad", "triste", "triste"),
    )),
]  # fmt: skip
VERBS = [
    Verb(("sees", "see"), ("vois", "vois", "voit", "voyons", "voient")),
    Verb(("likes", "like"), ("aime", "aimes", "aime", "aimons", "aiment")),
    Verb(("wants", "want"), ("veux", "veux", "veut", "voulons", "veulent")),
    Verb(("has", "have"), ("ai", "as", "a", "avons", "ont")),
    Verb(("finds", "find"), ("trouve", "trouves", "trouve", "trouvons", "trouvent")),
    Verb(("looks for", "look for"), ("cherche", "cherches", "cherche", "cherchons", "cherchent")),
    Verb(("draws", "draw"), ("dessine", "dessines", "dessine", "dessinons", "dessinent")),
    Verb(("buys", "buy"), ("achète", "achètes", "achète", "achetons", "achètent")),
]
PRONOUNS = [
    Words("I", "je"),
    Words("you", "tu"),
    Words("he", "il"),
    Words("she", "elle"),
    Words("we", "nous"),
    Words("they", "ils"),
]
PERSON = {"je": 0, "tu": 1, "il": 2, "elle": 2, "nous": 3, "ils": 4}
NUMBERS = [Words("two", "deux"), Words("three", "trois"), Words("four", "quatre")]
ARTICLES = {"the": ("le", "la"), "a": ("un", "une"), "my": ("mon", "ma"), "his": ("son", "sa")}
VOWELS = "aeiouhéèêâœ"


def groups(seed: int) -> Iterator[list[Conversation]]:
    """Endlessly many training conversations, of one to three sentences."""
    draw = Draw(seed)
    while True:
        yield [_conversation(draw, draw.number(1, MAX_TURNS))]


def held_out() -> dict[str, list[Conversation]]:
    """Sentences with a pair that training never has, asked for in held-out words, alone and after another."""
    draws = [Draw(f"{HELD_OUT_SEED} {SKILL} {number}", held_out=True) for number in range(NUM_HELD_OUT)]
    return {
        "sentences": [_conversation(draw, 1) for draw in draws],
        "sentences of a second turn": [_conversation(draw, 2) for draw in draws],
    }


def is_held_out(adjective: str, noun: str) -> bool:
    return crc32(f"{adjective} {noun}".encode()) % HELD_OUT_ONE_IN == 0


def _conversation(draw: Draw, num_turns: int) -> Conversation:
    messages = []
    for _ in range(num_turns):
        said = _sentence(draw)
        messages.append({"role": "user", "content": draw.phrase(ASKED, text=said.english)})
        messages.append({"role": "assistant", "content": said.french})
    return Conversation(SKILL, messages, Expectation("exact", said.french))


def _sentence(draw: Draw) -> Words:
    """Someone does something with a thing, or does not."""
    is_denied = draw.chance(0.25)
    subject, person = _subject(draw)
    verb = draw.any(VERBS)
    return sentence(subject, person, verb, _thing(draw, is_denied), is_denied)


def _subject(draw: Draw) -> tuple[Words, int]:
    if draw.chance(0.5):
        pronoun = draw.any(PRONOUNS)
        return pronoun, PERSON[pronoun.french]
    noun, article = draw.any(LIVING), draw.any(("the", "my"))
    return with_article(article, noun), PERSON["il"]


def _thing(draw: Draw, is_denied: bool) -> Words:
    """In held-out sentences always with an adjective; what is denied is not `a` thing."""
    articles = [article for article in ARTICLES if not (is_denied and article == "a")]
    noun, adjective = draw.any(NOUNS), draw.any(ADJECTIVES)
    while is_held_out(adjective.english, noun.english) != draw.held_out:
        noun, adjective = draw.any(NOUNS), draw.any(ADJECTIVES)
    if not draw.held_out and draw.chance(0.25):
        return with_article(draw.any(articles), noun)
    if draw.chance(0.2):
        return with_number(draw.any(NUMBERS), noun, adjective)
    return with_article(draw.any(articles), noun, adjective)


def sentence(subject: Words, person: int, verb: Verb, thing: Words, is_denied: bool = False) -> Words:
    """`person` is the place of the verb's form in French; in English 2 has one of its own."""
    english, french = verb.english[person != PERSON["il"]], verb.french[person]
    sentence = _joined("je", french) if subject.french == "je" else f"{subject.french} {french}"
    if is_denied:
        english = f"{'does' if person == PERSON['il'] else 'do'} not {verb.english[1]}"
        sentence = f"{subject.french} {_joined('ne', french)} pas"
    texts = (f"{subject.english} {english} {thing.english}", f"{sentence} {thing.french}")
    return Words(*(f"{text[0].upper()}{text[1:]}." for text in texts))


def with_article(article: str, noun: Noun, adjective: Adjective | None = None) -> Words:
    """`the` loses its vowel before another one, where `my` and `his` are those of a masculine noun."""
    french = noun.french if adjective is None else _with_adjective(noun, adjective)
    own = ARTICLES[article][noun.is_feminine]
    if article == "the":
        french = _joined(own, french)
    elif article in ("my", "his") and french[0] in VOWELS:
        french = f"{ARTICLES[article][False]} {french}"
    else:
        french = f"{own} {french}"
    return Words(" ".join([article, *([adjective.english] if adjective else []), noun.english]), french)


def with_number(number: Words, noun: Noun, adjective: Adjective) -> Words:
    english = f"{number.english} {adjective.english} {noun.english}s"
    return Words(english, f"{number.french} {_with_adjective(noun, adjective, is_plural=True)}")


def _joined(word: str, french: str) -> str:
    """`le`, `je` or `ne` and what follows, without its vowel before another one."""
    return f"{word[:-1]}'{french}" if french[0] in VOWELS else f"{word} {french}"


def _with_adjective(noun: Noun, adjective: Adjective, is_plural: bool = False) -> str:
    one, of_it = noun.french, adjective.feminine if noun.is_feminine else adjective.masculine
    if is_plural:
        one, of_it = PLURALS.get(one, one + "s"), of_it + "s"
    return f"{of_it} {one}" if adjective.is_before else f"{one} {of_it}"
