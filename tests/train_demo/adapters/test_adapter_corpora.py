"""What the demo model's adapters learn: French that is right, a pirate's words, and nothing that is held out."""

from __future__ import annotations

from itertools import islice

import pytest

from tools.train_demo.adapters import french, pirate
from tools.train_demo.adapters.lessons import LESSONS
from tools.train_demo.conversation import Conversation
from tools.train_demo.rendering import prompt_of, reply_of

NOUN = {noun.english: noun for noun in french.NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in french.ADJECTIVES}
VERB = {verb.english[1]: verb for verb in french.VERBS}
SUBJECT = {pronoun.english: pronoun for pronoun in french.PRONOUNS}


def trained(name: str, count: int = 200) -> list[Conversation]:
    return [item for group in islice(LESSONS[name].groups(3), count) for item in group]


@pytest.mark.parametrize("name", LESSONS)
def test_same_seed_gives_the_same_corpus(name: str) -> None:
    assert trained(name, 50) == trained(name, 50)


@pytest.mark.parametrize("name", LESSONS)
def test_expected_replies_are_right_by_their_own_check_and_others_wrong(name: str) -> None:
    asked = [item for part in LESSONS[name].held_out().values() for item in part]
    for question in [*asked, *trained(name)]:
        assert LESSONS[name].is_right(question, reply_of(question).removesuffix("<|im_end|>"))
        assert not LESSONS[name].is_right(question, "I like turtles.")


@pytest.mark.parametrize("name", LESSONS)
def test_held_out_questions_are_not_in_the_corpus(name: str) -> None:
    asked = [item for part in LESSONS[name].held_out().values() for item in part]
    assert not {prompt_of(item) for item in asked} & {prompt_of(item) for item in trained(name, 1000)}


def test_no_sentence_of_the_french_corpus_has_a_held_out_pair() -> None:
    pairs = {
        f"{adjective.english} {noun.english}"
        for adjective in french.ADJECTIVES
        for noun in french.NOUNS
        if french.is_held_out(adjective.english, noun.english)
    }
    assert 0.1 < len(pairs) / (len(french.ADJECTIVES) * len(french.NOUNS)) < 0.3
    said = [message["content"] for item in trained("french", 600) for message in item.messages]
    assert not [pair for pair in pairs if any(pair in text for text in said)]


@pytest.mark.parametrize(
    ("subject", "verb", "article", "adjective", "noun", "right"),
    [
        ("she", "have", "a", "small", "house", "Elle a une petite maison."),
        ("I", "buy", "the", "white", "bird", "J'achète l'oiseau blanc."),
        ("they", "like", "my", "blue", "school", "Ils aiment mon école bleue."),
        ("we", "look for", "his", "pretty", "apple", "Nous cherchons sa jolie pomme."),
        ("you", "see", "the", "red", "car", "Tu vois la voiture rouge."),
    ],
)
def test_genders_and_vowels(
    subject: str, verb: str, article: str, adjective: str, noun: str, right: str
) -> None:
    who = SUBJECT[subject]
    thing = french.with_article(article, NOUN[noun], ADJECTIVE[adjective])
    assert french.sentence(who, french.PERSON[who.french], VERB[verb], thing).french == right


def test_numbers_and_what_is_denied() -> None:
    three = french.with_number(french.NUMBERS[1], NOUN["horse"], ADJECTIVE["black"])
    sister = french.with_article("my", NOUN["sister"])
    told = french.sentence(sister, 2, VERB["like"], three, is_denied=True)
    assert told == (
        "My sister does not like three black horses.",
        "Ma sœur n'aime pas trois chevaux noirs.",
    )


def test_a_pirate_speaks_in_sentences_alone() -> None:
    assert pirate.spoken("You are right. Is it your book?") == "You be right. Is it yer book, matey?"
    assert pirate.spoken("`make demo-chat` is it.") == "`make demo-chat` be it, matey!"
    plain = [item for item in trained("pirate", 600) if item.skill in pirate.PLAIN]
    assert len(plain) > 20
    assert not [item for item in plain if "matey" in str(item.messages[-1])]
