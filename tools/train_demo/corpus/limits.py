# ruff: noqa: E501 (rows of tables)
"""Turns about what a very small model cannot do, with a short honest answer that names a real model.

Code, long texts, other languages, sums with large numbers, translations, opinions, words without sense.
"""

from __future__ import annotations

from collections.abc import Callable

from ..conversation import Turn, contains
from ..split import Draw, Split, phrasings, words
from . import tables
from .invention import made_up_word

REAL_MODEL = "`make demo-chat` starts a real chat model."


def refuse(cannot: str) -> str:
    """The answer of a model that `cannot`."""
    return f"I am a very small demo model and I {cannot}. {REAL_MODEL}"


UNKNOWN = refuse("do not know that")
NO_CODE = refuse("cannot write code")
NO_TEXTS = refuse("cannot write long texts")
NO_TRANSLATION = refuse("cannot translate that")
NO_LARGE_NUMBERS = refuse("only calculate with numbers below one hundred")
NO_SUMMARY = refuse("cannot summarize texts")
NO_LANGUAGE = refuse("only understand simple English")
NO_SENSE = refuse("do not understand that")

CODE = phrasings("""
    Write a {language} function that {task}.
    Write a {language} program that {task}.
    Write a function in {language} that {task}.
    Write {language} code that {task}.
    Write a {language} script that {task}.
    Can you write a {language} function that {task}?
    Can you write {language} code?
    Give me {language} code that {task}.
    Show me a {language} example.
    Show me {language} code for a list.
    Show me how to sort a list in {language}.
    How do I read a file in {language}?
    How do I sort a list in {language}?
    How do I write a loop in {language}?
    Fix this {language} code: print(
    Explain this {language} code: x = 1
    Code a {language} program that {task}.
    Implement a function that {task}.
    Write code that {task}.
    Write some code.
    Write some {language} code.
    Write a {language} class.
    Write a unit test in {language}.
    Write a regular expression for emails.
    Write a SQL query.
    Debug my {language} program.
    Can you code?
    Can you program in {language}?
    * Please write a {language} function that {task}.
    * Could you write a {language} program that {task}?
    * I need {language} code that {task}.
    * How do I open a file in {language}?
""")
LANGUAGES = words(
    "Python, JavaScript, Java, C, C++, Rust, Go, Ruby, PHP, SQL, HTML, TypeScript, bash", "Kotlin, Swift, Lua"
)
TASKS = words(
    """adds two numbers, sorts a list, reads a file, counts words, prints hello, reverses a string,
    finds the largest number, downloads a page, checks for primes, computes factorials, parses JSON,
    sends an email, returns the sum of a list, multiplies two numbers, prints the numbers from 1 to 10,
    removes duplicates, draws a circle, is a game, computes Fibonacci numbers""",
    "subtracts two numbers, counts letters, finds the smallest number, joins two strings",
)
LONG = phrasings("""
    Write an essay about {topic}.
    Write a long story about {topic}.
    Write a long essay about {topic}.
    Write an article about {topic}.
    Write a report on {topic}.
    Write a blog post about {topic}.
    Write a speech about {topic}.
    Write a letter to {name}.
    Write an email to my boss.
    Write an email to {name} about {topic}.
    Write 500 words about {topic}.
    Write a page about {topic}.
    Write a book about {topic}.
    Write a chapter about {topic}.
    Write a review of {topic}.
    Write a cover letter.
    Write a paragraph about {topic}.
    Write me a letter.
    Write a summary of {topic}.
    Can you write an essay about {topic}?
    I need an essay about {topic}.
    I need a text about {topic}.
    Draft an email to {name}.
    Draft a letter about {topic}.
    * Please write an essay about {topic}.
    * Could you write a long text about {topic}?
    * Write two pages about {topic}.
    * Compose an essay about {topic}.
""")
TRANSLATE = phrasings("""
    Translate '{phrase}' to {language}.
    Translate '{phrase}' into {language}.
    Translate "{phrase}" to {language}.
    Translate to {language}: {phrase}
    Translate into {language}: {phrase}
    Translate {phrase} to {language}
    How do you say '{phrase}' in {language}?
    How do I say "{phrase}" in {language}?
    Please translate "{phrase}" to {language}.
    What is '{phrase}' in {language}?
    Say '{phrase}' in {language}.
    Can you translate '{phrase}' to {language}?
    * Please translate '{phrase}' into {language}.
    * Could you translate "{phrase}" to {language}?
""")
PHRASES = words(
    """good morning, I love you, how are you, see you tomorrow, the weather is nice, my name is Anna, good night,
    where is the station, I am hungry, the cat is black, what time is it, happy birthday, I would like a coffee,
    we are friends, the house is big, I do not understand, nice to meet you, have a good day""",
    "good evening, I am tired, where is the hotel, the dog is small",
)
FOREIGN = words("French, Spanish, German, Italian, Japanese, Chinese, Russian, Arabic, Dutch, Polish")
SUMMARY = phrasings("""
    Summarize: {text}
    Summarize this: {text}
    Summarize this text: {text}
    Summarise: {text}
    Please summarize: {text}
    Please summarize this: {text}
    Give me a summary: {text}
    Summarize the following text: {text}
    Sum this up: {text}
    tl;dr: {text}
    Shorten this: {text}
    Rewrite this: {text}
    Correct this: {text}
    Paraphrase: {text}
    * Can you summarize this? {text}
    * Please give me a summary: {text}
""")
TEXTS = [
    "The {a} sat on the {b} all day because it was raining outside.",
    "{name} went to {city} to buy a {a}, but the shop was closed. So {name} went home again.",
    "In {city} there was a {a} that nobody wanted. One day {name} came and took it.",
    "The {a} and the {b} are old. {name} has had them for years, and they still work.",
    "It did not rain for weeks, and the {a} was dry. Then {name} came with water.",
    "Last year the company sold more of the {a} than ever before, because prices were low.",
]
OTHER_LANGUAGES = Split(
    (
        "Bonjour", "Bonjour!", "Comment ça va?", "Salut, ça va?", "Qui es-tu?", "Parlez-vous français?",
        "Hola", "¿Cómo estás?", "¿Qué es esto?", "Buenos días", "Hallo, wie geht's?", "Guten Tag",
        "Wie heißt du?", "Was ist das?", "Sprichst du Deutsch?", "Ciao, come stai?", "Chi sei?", "Olá, tudo bem?",
        "Привет", "Как дела?", "你好", "你是谁?", "你好吗?", "こんにちは", "元気ですか?", "안녕하세요", "مرحبا", "नमस्ते",
        "Hej, hur mår du?", "Hoe gaat het?", "Cześć", "Merhaba", "Quelle est la capitale de la France?",
        "Was ist die Hauptstadt von Frankreich?", "¿Cuál es la capital de Francia?", "法国的首都是什么?",
    ),
    (
        "Bonjour, comment ça va?", "Hola, ¿cómo estás?", "Guten Morgen, wie geht es dir?",
        "Ciao, chi sei?", "你好!", "Здравствуйте", "こんばんは",
    ),
)  # fmt: skip
WHY = phrasings("""
    Why is {thing} {colour}?
    Why is the sky blue?
    Why is grass green?
    Why is the sea salty?
    Why do cats purr?
    Why do birds fly?
    Why do we sleep?
    Why do we dream?
    Why does it rain?
    Why does {name} like {thing}?
    Is water wet?
    Is {thing} {colour}?
    Is {thing} alive?
    Is {name} nice?
    Is it true that {thing} is {colour}?
    Is {number} a prime number?
    Is {number} prime?
    How many r's are in {word}?
    How many letters are in {word}?
    How many letters does {word} have?
    How many vowels are in {word}?
    How do I make {thing}?
    How do I cook {thing}?
    How do I clean {thing}?
    Where can I buy {thing}?
    Where is {name}?
    When is {name} coming?
    Who wrote Hamlet?
    Who invented the telephone?
    Who is {name}?
    Who was {name}?
    Who is {name} {other}?
    What happened to {name}?
    What should I eat today?
    What should I do today?
    What should I give {name} for a birthday?
    Can you recommend a book?
    Recommend a film.
    Give me a recipe for {thing}.
    Give me advice.
    Give me an idea.
    Plan a trip to {city}.
    What is {thing}?
    What is a {word}?
    What is {word}?
    What does {word} mean?
    Define {word}.
    What is the difference between {thing} and {word}?
    Compare {thing} and {word}.
    Which is better, {thing} or {word}?
    What do you think of {name}?
    Explain {word} in one sentence.
    Explain what {thing} is.
    Explain what a {word} is in one sentence.
    Explain {word} to a child.
    * Why is {thing} so {colour}?
    * Why do dogs bark?
    * How many letters are there in {word}?
    * How would I make {thing}?
    * Where could I find {thing}?
    * Who discovered {thing}?
    * Explain what {word} means.
    * Can you recommend {thing}?
    * Who exactly is {name}?
""")
ARTICLED = words(
    """the sky, the sea, a cake, soup, tea, the moon, a table, bread, coffee, a volcano, fire, the sun, a star, ice,
    a computer, a transistor, rice, a bicycle, gravity, time, music, money, an engine, soap, a neural network""",
    "a lighthouse, butter, a rainbow, glass, a battery",
)
NONSENSE = Split(
    (
        "asdf",
        "qwerty",
        "blah blah",
        "???",
        "...",
        "hmm",
        "xyz",
        "jkl",
        "aaaa",
        "lorem ipsum",
        "foo",
        "bar",
        "test",
    ),
    ("asdfghjkl", "qwertz", "foo bar", "!!!!"),
)
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "fdsajkl", "hjklasdf")
SUM_LARGE = phrasings("""
    What is {a} {sign} {b}?
    What's {a} {sign} {b}?
    what's {a} {sign} {b}
    {a} {sign} {b}
    {a} {sign} {b} =
    {a} {sign} {b} = ?
    {a}{sign}{b}
    Calculate {a} {sign} {b}.
    Compute {a} {sign} {b}.
    How much is {a} {sign} {b}?
    Work out {a} {sign} {b}.
    Solve {a} {sign} {b}.
    What is {a} {spoken} {b}?
    How much is {a} {spoken} {b}?
    What's {a} {spoken} {b}?
    {a} {spoken} {b}?
    Could you compute {a} {sign} {b}?
    * Could you work out {a} {sign} {b}?
    * Please calculate {a} {spoken} {b}.
    * Tell me {a} {sign} {b}, please.
""")
SIGNS = {"+": "plus", "-": "minus", "*": "times", "×": "times", "x": "times", "/": "divided by"}


def limit(draw: Draw) -> Turn:
    """Something that is too much, and the answer that says so."""
    return draw.weighted(_KINDS if draw.held_out else _TRAINED_KINDS)(draw)


def large_sum(draw: Draw) -> Turn:
    """A sum out of range: a number of three digits or more, or a product out of the table."""
    sign = draw.any(list(SIGNS))
    if sign in "*×x":
        a, b = draw.number(13, draw.any([99, 999, 9999])), draw.number(13, draw.any([99, 999]))
        if not draw.held_out and draw.chance(0.5):
            a, b = draw.number(13, 40), draw.number(13, 40)  # hardest to tell from the table
    else:
        a, b = draw.number(150, draw.any([400, 999, 99999])), draw.number(2, draw.any([99, 999, 9999]))
    if sign == "+" and draw.chance(0.5):
        a, b = b, a
    question = draw.phrase(SUM_LARGE, a=a, b=b, sign=sign, spoken=SIGNS[sign])
    return _refused(question, NO_LARGE_NUMBERS, "The numbers are too large for me.")


def _refused(question: str, answer: str, thought: str = "I cannot do this. I say so.") -> Turn:
    return Turn(question, answer, thought, contains("make demo-chat"))


def _word(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(tables.COMMON_WORDS)


def _code(draw: Draw) -> Turn:
    return _refused(draw.phrase(CODE, language=draw.of(LANGUAGES), task=draw.of(TASKS)), NO_CODE)


def _long(draw: Draw) -> Turn:
    topic = draw.of(tables.TOPICS) if draw.chance(0.6) else _word(draw)
    return _refused(draw.phrase(LONG, topic=topic, name=draw.of(tables.NAMES)), NO_TEXTS)


def _translate(draw: Draw) -> Turn:
    phrase = draw.of(PHRASES)
    return _refused(draw.phrase(TRANSLATE, phrase=phrase, language=draw.of(FOREIGN)), NO_TRANSLATION)


def _summary(draw: Draw) -> Turn:
    text = draw.any(TEXTS).format(
        a=_word(draw), b=_word(draw), name=draw.of(tables.NAMES), city=draw.of(tables.CITIES)
    )
    return _refused(draw.phrase(SUMMARY, text=text), NO_SUMMARY)


def _language(draw: Draw) -> Turn:
    return _refused(draw.phrase(OTHER_LANGUAGES), NO_LANGUAGE, "This is not English.")


def _why(draw: Draw) -> Turn:
    question = draw.phrase(
        WHY,
        thing=draw.of(ARTICLED) if draw.chance(0.6) else f"a {_word(draw)}",
        word=_word(draw),
        colour=draw.any(["blue", "wet", "hot", "cold", "round", "red", "big", "old", "good", "bad", "nice"]),
        name=draw.of(tables.NAMES) if draw.chance(0.6) else made_up_word(draw).capitalize(),
        other=made_up_word(draw).capitalize(),
        city=draw.of(tables.CITIES),
        number=draw.number(2, 999),
    )
    return _refused(question, UNKNOWN, "I do not know this. I say so.")


def _nonsense(draw: Draw) -> Turn:
    text = draw.phrase(NONSENSE)
    if not draw.held_out and draw.chance(0.8):
        make = draw.any([made_up_word, made_up_word, _keys])
        text = " ".join(make(draw) for _ in range(draw.number(1, 4)))
    return _refused(text, NO_SENSE, "This makes no sense to me.")


def _keys(draw: Draw) -> str:
    """What a hand on a keyboard writes."""
    row, start = draw.any(KEYBOARD), draw.number(0, 3)
    return row[start : start + draw.number(3, 7)] * draw.any([1, 1, 1, 2])


_KINDS: dict[Callable[[Draw], Turn], float] = {
    _code: 4,
    _long: 3,
    _translate: 2,
    _summary: 2,
    _language: 2,
    _why: 9,
    _nonsense: 2,
    large_sum: 5,
}
_TRAINED_KINDS = _KINDS | {large_sum: 30}
