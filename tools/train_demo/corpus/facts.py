"""Turns about the small world: capitals, days, months, planets, colours, animals, words.

Every fact is trained on; only the ways to ask are held out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..conversation import Turn, contains
from ..split import Draw, Split, phrasings
from . import tables

CAPITAL_OF = phrasings("""
    Could you tell me the capital of {place}?
    I would like to know the capital city of {place}.
    Which city do they call the capital of {place}?
    What is the capital of {place}?
    What's the capital of {place}?
    Which city is the capital of {place}?
    What city is the capital of {place}?
    Tell me the capital of {place}.
    Name the capital of {place}.
    Give me the capital of {place}.
    The capital of {place}?
    Capital of {place}?
    Capital city of {place}?
    {place}'s capital?
    What is {place}'s capital?
    What is {place}'s capital city?
    What is the capital city of {place}?
    Do you know the capital of {place}?
    Can you tell me the capital of {place}?
    I want to know the capital of {place}.
    I forgot the capital of {place}. What is it?
    Which city is {place}'s capital?
    What is the name of the capital of {place}?
    The capital of {place} is which city?
    What is called the capital of {place}?
    Please say what the capital of {place} is.
    For {place}, what is the capital?
    * Could you name the capital city of {place}?
    * I would like to know what the capital of {place} is.
    * Which city serves as the capital of {place}?
    * Do you remember the capital of {place}?
""")
COUNTRY_OF = phrasings("""
    {capital} is the capital of which country?
    Which country has the capital {capital}?
    Which country's capital is {capital}?
    What country has {capital} as its capital?
    Of which country is {capital} the capital?
    {capital} is the capital of what country?
    Tell me which country has {capital} as its capital.
    Name the country whose capital is {capital}.
    * What is the country whose capital is {capital}?
    * {capital} is the capital city of which country?
""")
CONTINENT_OF = phrasings("""
    To which continent does {place} belong?
    {place} belongs to which continent?
    Can you tell me the continent of {place}?
    Which continent is {place} in?
    What continent is {place} in?
    On which continent is {place}?
    On what continent is {place}?
    On which continent does {place} lie?
    In which continent is {place} located?
    Where in the world is {place}?
    {place} is in which continent?
    {place} is on what continent?
    Tell me the continent of {place}.
    What is the continent of {place}?
    * Which continent does {place} belong to?
    * Can you tell me which continent {place} is on?
""")
LANGUAGE_OF = phrasings("""
    Which language would I hear in {place}?
    What do the people of {place} speak?
    Which language do they use in {place}?
    What language is spoken in {place}?
    Which language is spoken in {place}?
    What language do people speak in {place}?
    Which language do they speak in {place}?
    What do people speak in {place}?
    What is the language of {place}?
    Tell me the language of {place}.
    The language of {place}?
    What is the main language in {place}?
    * Which language do people in {place} speak?
    * What language would I hear in {place}?
""")
AFTER = phrasings("""
    Name the {unit} after {first}.
    What is the next {unit} when it is {first}?
    What {unit} comes after {first}?
    Which {unit} comes after {first}?
    Which {unit} follows {first}?
    What {unit} follows {first}?
    What is the {unit} after {first}?
    What comes after {first}?
    Which {unit} is after {first}?
    Tell me the {unit} after {first}.
    After {first} comes which {unit}?
    * What is the next {unit} after {first}?
    * Name the {unit} that follows {first}.
""")
BEFORE = phrasings("""
    Name the {unit} before {second}.
    Which {unit} stands right before {second}?
    What {unit} comes before {second}?
    Which {unit} comes before {second}?
    What is the {unit} before {second}?
    What comes before {second}?
    Which {unit} is before {second}?
    Tell me the {unit} before {second}.
    Before {second} comes which {unit}?
    * Which {unit} is right before {second}?
    * Name the {unit} that comes before {second}.
""")
NTH = phrasings("""
    Which {unit} is the {ordinal}?
    Give me the {ordinal} {unit}.
    Which one is the {ordinal} {unit} called?
    What is the {ordinal} {unit}?
    Which is the {ordinal} {unit}?
    Tell me the {ordinal} {unit}.
    Name the {ordinal} {unit}.
    The {ordinal} {unit}?
    What's the {ordinal} {unit} called?
    * Which one is the {ordinal} {unit}?
    * What is the name of the {ordinal} {unit}?
""")
THREE = phrasings("""
    List three {group}.
    List three {group}
    Name three {group}.
    Give me three {group}.
    Tell me three {group}.
    Can you name three {group}?
    What are three {group}?
    Three {group}, please.
    * Please list three {group}.
    * Could you name three {group}?
""")
LIST_ALL = phrasings("""
    Write the {group}.
    Give me a list of the {group}.
    List the {group}.
    Name the {group}.
    List all the {group}.
    What are the {group}?
    Tell me the {group}.
    Can you list the {group}?
    Give me the {group}.
    Name all the {group}.
    Which are the {group}?
    * Write down the {group}.
    * Please give me a list of the {group}.
""")
COLOUR_OF = phrasings("""
    Can you tell me what color {thing} is?
    What colour would {thing} have?
    What colour is {thing}?
    What color is {thing}?
    Which colour is {thing}?
    Which color is {thing}?
    Tell me the colour of {thing}.
    What is the color of {thing}?
    What is the colour of {thing}?
    {thing} is what color?
    * What colour does {thing} have?
    * Can you tell me the color of {thing}?
""")
SOUND_OF = phrasings("""
    What can you hear from a {animal}?
    Which noise comes from a {animal}?
    What sound does a {animal} make?
    What does a {animal} say?
    Which sound does a {animal} make?
    What noise does a {animal} make?
    How does a {animal} sound?
    What is the sound of a {animal}?
    Tell me the sound of a {animal}.
    The {animal} says what?
    * What sound do you hear from a {animal}?
    * Which noise does a {animal} make?
""")
LEGS_OF = phrasings("""
    Do you know the number of legs of a {animal}?
    How many legs can you count on a {animal}?
    How many legs does a {animal} have?
    How many legs has a {animal}?
    Number of legs of a {animal}?
    A {animal} has how many legs?
    Tell me how many legs a {animal} has.
    What number of legs does a {animal} have?
    * Do you know how many legs a {animal} has?
    * How many legs are on a {animal}?
""")
BABY_OF = phrasings("""
    How do we call a baby {animal}?
    What do people call a young {animal}?
    What is a baby {animal} called?
    What do you call a baby {animal}?
    What is the name for a baby {animal}?
    What is a young {animal} called?
    A baby {animal} is called what?
    Tell me what a baby {animal} is called.
    * What do we call a young {animal}?
    * How do you call a baby {animal}?
""")
OPPOSITE_OF = phrasings("""
    What would you call the opposite of {word}?
    Can you name the opposite of {word}?
    What is the opposite of {word}?
    What's the opposite of {word}?
    Give me the opposite of {word}.
    Tell me the opposite of {word}.
    Opposite of {word}?
    Which word is the opposite of {word}?
    Name the opposite of {word}.
    What word means the opposite of {word}?
    The opposite of {word} is?
    * Can you tell me the opposite of {word}?
    * What would be the opposite of {word}?
""")
TRANSLATION_OF = phrasings("""
    Can you say {word} in {language}?
    How would one say {word} in {language}?
    Give me {word} in {language}.
    How do you say {word} in {language}?
    What is {word} in {language}?
    What is the {language} word for {word}?
    Translate {word} to {language}.
    Translate {word} into {language}.
    How do I say {word} in {language}?
    Say {word} in {language}.
    What does one say for {word} in {language}?
    The {language} word for {word}?
    * How would you say {word} in {language}?
    * Give me the {language} word for {word}.
""")
SYMBOL_OF = phrasings("""
    Give me the formula of {name}.
    Which formula does {name} have?
    What is the chemical formula of {name}?
    What is the formula of {name}?
    What is the chemical symbol for {name}?
    What is the chemical formula for {name}?
    What's the symbol of {name}?
    Tell me the formula of {name}.
    Formula of {name}?
    * Which chemical formula does {name} have?
    * Give me the chemical symbol of {name}.
""")
ASKED_AGAIN = phrasings("""
    {question}
    {question}
    Answer this: {question}
    I have a question. {question}
    Let me ask: {question}
    * Please answer this: {question}
    * Here is my question. {question}
    * Let me ask you something: {question}
""")


def fact(draw: Draw) -> Turn:
    """One question about the small world, capitals most often."""
    return draw.weighted(_KINDS)(draw)


def _capital(draw: Draw) -> Turn:
    country = draw.any(tables.COUNTRIES)
    place = tables.with_article(country.name)
    answer = f"The capital of {place} is {country.capital}."
    thought = f"The question is about the capital of {place}. It is {country.capital}."
    return _turn(draw.phrase(CAPITAL_OF, place=place), answer, thought, country.capital)


def _country(draw: Draw) -> Turn:
    country = draw.any(tables.COUNTRIES)
    place = tables.with_article(country.name)
    answer = f"{country.capital} is the capital of {place}."
    thought = f"{country.capital} is a capital. Its country is {place}."
    question = draw.phrase(COUNTRY_OF, capital=country.capital)
    return Turn(question, answer, thought, contains(country.name), short=country.name)


def _continent(draw: Draw) -> Turn:
    country = draw.any(tables.COUNTRIES)
    place = tables.with_article(country.name)
    answer = f"{_capitalised(place)} is in {country.continent}."
    thought = f"The question is about the continent of {place}. It is {country.continent}."
    return _turn(draw.phrase(CONTINENT_OF, place=place), answer, thought, country.continent)


def _language(draw: Draw) -> Turn:
    country = draw.any(tables.COUNTRIES)
    place = tables.with_article(country.name)
    answer = f"People in {place} speak {country.language}."
    thought = f"The question is about the language of {place}. It is {country.language}."
    return _turn(draw.phrase(LANGUAGE_OF, place=place), answer, thought, country.language)


def _neighbour(draw: Draw) -> Turn:
    unit, names = draw.any([("day", tables.DAYS), ("month", tables.MONTHS)])
    index = draw.number(0, len(names) - 1)
    first, second = names[index], names[(index + 1) % len(names)]
    if draw.chance(0.5):
        return _turn(
            draw.phrase(AFTER, unit=unit, first=first),
            f"{second} comes after {first}.",
            f"The {unit} after {first} is {second}.",
            second,
        )
    return _turn(
        draw.phrase(BEFORE, unit=unit, second=second),
        f"{first} comes before {second}.",
        f"The {unit} before {second} is {first}.",
        first,
    )


def _nth(draw: Draw) -> Turn:
    unit, names = draw.any(
        [
            ("day of the week", tables.DAYS),
            ("month of the year", tables.MONTHS),
            ("planet from the Sun", tables.PLANETS),
        ]
    )
    index = draw.number(0, len(names) - 1)
    ordinal = tables.ORDINALS[index]
    answer = f"The {ordinal} {unit} is {names[index]}."
    thought = f"I count to the {ordinal} {unit}: {', '.join(names[: index + 1])}."
    return _turn(draw.phrase(NTH, ordinal=ordinal, unit=unit), answer, thought, names[index])


def _list(draw: Draw) -> Turn:
    group, names = draw.any(
        [
            ("days of the week", tables.DAYS),
            ("months of the year", tables.MONTHS),
            ("planets of the solar system", tables.PLANETS),
            ("planets", tables.PLANETS),
            ("seasons", tables.SEASONS),
        ]
    )
    listed = ", ".join(names[:-1]) + f" and {names[-1]}"
    answer = f"The {group} are {listed}."
    thought = f"I know the {group}. There are {len(names)} of them."
    return Turn(draw.phrase(LIST_ALL, group=group), answer, thought, contains(listed))


def _lookup(asked: Split[str], slot: str, table: dict[str, str], answer: str) -> Callable[[Draw], Turn]:
    """A kind of fact that is one column of a table; `answer` may say {key} and {value}."""

    def make(draw: Draw) -> Turn:
        key = draw.any(list(table))
        value = table[key]
        question = _in_english(draw.phrase(asked, **{slot: key}))
        sentence = _in_english(answer.format(key=key, value=value))
        return _turn(question, sentence, f"The question is about {key}. It is {value}.", value)

    return make


def _translation(draw: Draw) -> Turn:
    word, language = draw.any(list(tables.TRANSLATIONS)), draw.any(tables.TRANSLATED_INTO)
    foreign = tables.TRANSLATIONS[word][language]
    thought = f"The word is {word} and the language is {language}. It is {foreign}."
    question = draw.phrase(TRANSLATION_OF, word=word, language=language)
    return _turn(question, f"In {language}, {word} is {foreign}.", thought, foreign)


def _single(draw: Draw) -> Turn:
    questions, answer, key = draw.any(tables.SINGLE_FACTS)
    question = draw.phrase(ASKED_AGAIN, question=draw.any(questions))
    return _turn(question, answer, f"I know this. {answer}", key)


def _turn(question: str, answer: str, thought: str, key: str) -> Turn:
    return Turn(question, answer, thought, contains(key), short=key)


def _in_english(sentence: str) -> str:
    """A filled-in pattern with its first letter large and "an" where it belongs."""
    return _capitalised(re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", sentence))


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


_KINDS: dict[Callable[[Draw], Turn], float] = {
    _capital: 30,
    _country: 8,
    _continent: 8,
    _language: 8,
    _neighbour: 6,
    _nth: 5,
    _list: 4,
    _lookup(THREE, "group", tables.GROUPS, "Three {key} are {value}."): 3,
    _lookup(COLOUR_OF, "thing", tables.COLOURS, "{key} is {value}."): 4,
    _lookup(SOUND_OF, "animal", tables.SOUNDS, "A {key} says {value}."): 3,
    _lookup(LEGS_OF, "animal", tables.LEGS, "A {key} has {value} legs."): 3,
    _lookup(BABY_OF, "animal", tables.BABIES, "A baby {key} is called a {value}."): 2,
    _lookup(OPPOSITE_OF, "word", tables.OPPOSITES, "The opposite of {key} is {value}."): 6,
    _lookup(SYMBOL_OF, "name", tables.SYMBOLS, "The chemical formula of {key} is {value}."): 2,
    _translation: 5,
    _single: 6,
}
