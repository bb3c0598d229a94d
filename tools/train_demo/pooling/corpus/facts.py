"""Questions, the passages that answer them, and passages that only look as if they did."""

from __future__ import annotations

from dataclasses import dataclass

from ...corpus.tables import COUNTRIES
from ...split import Draw
from .answers import ANSWERS
from .filling import fill
from .names import PATTERNS, PRONOUNS, Thing, thing
from .people import PEOPLE
from .places import PLACES
from .relations import Relation
from .surface import careless, with_articles
from .things import THINGS

RELATIONS = [*PLACES, *PEOPLE, *THINGS]
BY_KIND = {
    kind: [relation for relation in RELATIONS if kind in relation.kinds]
    for kind in PATTERNS
    if sum(kind in relation.kinds for relation in RELATIONS) > 1
}
ASKED_EVERY_DAY = 0.18  # the share of questions without a name
REAL = 0.08  # the share about countries that there are
INTRODUCTIONS = (
    "Many people have heard of {e}.",
    "{e} is well known.",
    "This page is about {e}.",
    "Here is what we know about {e}.",
    "There is a lot to say about {e}.",
    "Not everyone knows {e}.",
)


@dataclass(frozen=True)
class Question:
    """A question, a passage that answers it, and others, the most deceptive ones first.

    Questions of one `meaning` have the same answers.
    """

    text: str
    answer: str
    others: tuple[str, ...]
    meaning: str


def question(draw: Draw, num_others: int) -> Question:
    """One question with as many passages that do not answer it."""
    if draw.chance(ASKED_EVERY_DAY):
        return _everyday(draw, num_others)
    if draw.chance(REAL):
        return _about_country(draw, num_others)
    return _about_thing(draw, num_others)


def passage(draw: Draw) -> str:
    """Some passage of this corpus."""
    about = thing(draw, draw.any(list(BY_KIND)))
    return told(draw, about, draw.any(BY_KIND[about.kind]))


def _about_thing(draw: Draw, num_others: int) -> Question:
    about = thing(draw, draw.any(list(BY_KIND)))
    relation = draw.any(BY_KIND[about.kind])
    asked = careless(draw, with_articles(draw.phrase(relation.questions, e=about.name)))
    answer = told(draw, about, relation, [one for one in BY_KIND[about.kind] if one is not relation])
    others = [_other(draw, about, relation, index) for index in range(num_others)]
    return Question(asked, answer, tuple(others), f"{relation.name} {about.name}")


def _other(draw: Draw, about: Thing, relation: Relation, index: int) -> str:
    """A passage about the same thing, the same question, a name that is alike, or about none of them."""
    rest = [one for one in BY_KIND[about.kind] if not _same_answer(one, relation)]
    if index % 3 == 0 and rest:
        return told(draw, about, draw.any(rest), rest)
    if index % 3 == 1:
        return told(draw, _another(draw, about, about.kind), relation)
    if index % 3 == 2 and draw.chance(0.5):
        kind = draw.any([kind for kind in relation.kinds if kind in PATTERNS])
        other = _alike(draw, about, kind)
        return told(draw, other, relation)
    return passage(draw)


def _alike(draw: Draw, about: Thing, kind: str) -> Thing:
    """Something else with a name that shares a part with it."""
    head, _, tail = about.name.partition(" ")
    if about.kind == "person" and tail:
        return Thing(f"{head} {thing(draw, 'town').word}", "person", head)
    return _another(draw, about, kind)


def _another(draw: Draw, about: Thing, kind: str) -> Thing:
    other = thing(draw, kind)
    return other if other.name != about.name else _another(draw, about, kind)


def _same_answer(one: Relation, other: Relation) -> bool:
    """Whether a passage of one might well answer a question of the other."""
    return one.name == other.name or {one.name, other.name} in SIMILAR


SIMILAR = [
    {"founding", "built"},
    {"location", "transport"},
    {"birthplace", "residence"},
    {"ingredients", "taste"},
    {"origin", "habitat"},
    {"product", "revenue"},
    {"source", "location"},
    {"mouth", "location"},
    {"plot", "star"},
    {"stadium", "location"},
    {"date", "founding"},
]


def told(draw: Draw, about: Thing, relation: Relation, more: list[Relation] | None = None) -> str:
    """What a text says of the thing: a sentence, perhaps introduced, perhaps with another fact."""
    sentence = _sentence(draw, about, relation)
    kind = draw.number(1, 10)
    if kind <= 2:
        introduction = with_articles(draw.any(INTRODUCTIONS).format(e=about.name))
        return f"{_capital(introduction)} {_with_pronoun(about, sentence)}"
    if kind <= 4 and more:
        second = _sentence(draw, about, draw.any(more))
        parts = [sentence, _with_pronoun(about, second)]
        return " ".join(parts)
    return sentence


def _sentence(draw: Draw, about: Thing, relation: Relation) -> str:
    value = fill(draw, draw.any(relation.values))
    sentence = fill(draw, draw.phrase(relation.sentences, e=about.name, v=value, small="{small}"))
    return _capital(with_articles(sentence))


def _with_pronoun(about: Thing, sentence: str) -> str:
    subject, owner = PRONOUNS.get(about.kind, ("It", "Its"))
    name = _capital(about.name)
    if sentence.startswith(f"{name}'s "):
        return owner + sentence.removeprefix(f"{name}'s")
    return subject + sentence.removeprefix(name) if sentence.startswith(f"{name} ") else sentence


def _everyday(draw: Draw, num_others: int) -> Question:
    asked, *rest = draw.some(ANSWERS, min(num_others, len(ANSWERS) - 1) + 1)
    answer = _everyday_answer(draw, asked)
    others = [_everyday_answer(draw, other) if draw.chance(0.7) else passage(draw) for other in rest]
    return Question(careless(draw, draw.phrase(asked.questions)), answer, tuple(others), asked.name)


def _everyday_answer(draw: Draw, relation: Relation) -> str:
    return fill(draw, draw.phrase(relation.sentences, v=draw.any(relation.values)))


def _about_country(draw: Draw, num_others: int) -> Question:
    """Of the countries that there are, one in eight is only ever asked about in the held-out set."""
    country = draw.any([one for i, one in enumerate(COUNTRIES) if (i % 8 == 0) == draw.held_out])
    rest = draw.some([one for one in COUNTRIES if one is not country], num_others)
    kinds = {"capital": country.capital, "language": country.language}
    name = draw.any(list(kinds))
    relation = next(one for one in PLACES if one.name == name)
    other = next(one for one in PLACES if one.name == "population")

    def tell(where: str, what: Relation, value: str) -> str:
        return _capital(draw.phrase(what.sentences, e=where, v=value))

    others = [tell(one.name, relation, getattr(one, name)) for one in rest]
    others[:1] = [tell(country.name, other, fill(draw, "{number} people"))] if others else []
    asked = careless(draw, draw.phrase(relation.questions, e=country.name))
    return Question(asked, tell(country.name, relation, kinds[name]), tuple(others), f"{name} {country.name}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
