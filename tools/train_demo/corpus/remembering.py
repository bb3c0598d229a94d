"""Conversations of several turns in which the last question is about an earlier one."""

from __future__ import annotations

from ..conversation import Turn, contains
from ..split import Draw, Split, listed, phrasings
from . import tables
from .invention import made_up_word, name_or_new

TOPICS: dict[str, tuple[Split[str], str, Split[str], str]] = {
    "name": (
        phrasings("""
            My name is {value}.
            Hi, my name is {value}.
            Hello! My name is {value}.
            I am {value}.
            Hello, I am {value}.
            I'm {value}.
            Hi, I'm {value}.
            You can call me {value}.
            Please call me {value}.
            My name is {value}, please remember it.
            Good evening, I am {value}.
            Call me {value}.
            I am called {value}.
            They call me {value}.
            This is {value} speaking.
            Good day. The name is {value}.
            People know me as {value}.
            * Good morning, my name is {value}.
            * Hey, I am {value}.
        """),
        "Nice to meet you, {value}!",
        phrasings("""
            What is my name?
            What's my name?
            Do you remember my name?
            Do you know my name?
            Who am I?
            Tell me my name.
            Can you tell me my name?
            Say my name.
            What did I tell you about my name?
            How do they call me?
            What am I called?
            Remember my name?
            And what is my name?
            * What was my name?
            * Can you remember my name?
            * What did I say my name was?
        """),
        "Your name is {value}.",
    ),
    "city": (
        phrasings("""
            I live in {value}.
            I am from {value}.
            My home is in {value}.
            I come from {value}.
            I moved to {value}.
            {value} is my home.
            My family and I live in {value}.
            The place where I live is {value}.
            I was born in {value} and I still live there.
            * My city is {value}, I live in {value}.
        """),
        "{value} sounds like a nice place!",
        phrasings("""
            Where do I live?
            Where am I from?
            What city do I live in?
            In which city do I live?
            Which city is my home?
            What is the city I live in?
            Do you know where I am from?
            Tell me where I live.
            What did I say about my home?
            * Which city do I live in?
            * Do you remember where I live?
        """),
        "You live in {value}.",
    ),
    "colour": (
        phrasings("""
            My favourite colour is {value}.
            My favorite color is {value}.
            I like the colour {value} most.
            I love the color {value}.
            {value} is my favourite colour.
            I think {value} is the best colour.
            Of all colours I prefer {value}.
            The best color is {value}.
            If you ask me for a colour, I say {value}.
            For me it must be {value}, the most beautiful colour.
            My colour is {value}.
            * The colour I like best is {value}.
        """),
        "{value} is a nice colour!",
        phrasings("""
            What is my favourite colour?
            What is my favorite color?
            Which colour do I like?
            What colour do I like most?
            Do you know my favourite colour?
            Tell me my favourite color.
            What color is my favourite?
            Do you still know which colour I like?
            And my favourite colour?
            Can you say which color I prefer?
            * Do you remember my favourite colour?
            * Which color do I like most?
        """),
        "Your favourite colour is {value}.",
    ),
    "number": (
        phrasings("""
            Remember the number {value}.
            My number is {value}.
            Please remember the number {value}.
            My lucky number is {value}.
            Keep the number {value} in mind.
            The number is {value}.
            Do not forget the number {value}.
            Note the number {value}.
            Here is a number for you: {value}
            I give you the number {value}.
            * Please keep in mind the number {value}.
        """),
        "I will remember the number {value}.",
        phrasings("""
            What was the number?
            What is my number?
            Which number did I tell you?
            Tell me the number.
            What number did I say?
            And the number?
            Do you still know the number?
            Say the number again.
            What number was that?
            * Which number was it?
            * Do you remember the number?
        """),
        "The number is {value}.",
    ),
    "word": (
        phrasings("""
            Remember the word {value}.
            The secret word is {value}.
            The password is {value}.
            Please remember the word {value}.
            The word is {value}.
            Do not forget the word {value}.
            Note the word {value}.
            I tell you a word: {value}
            My word is {value}.
            * Please keep in mind the word {value}.
        """),
        "I will remember the word {value}.",
        phrasings("""
            What was the word?
            What is the secret word?
            Which word did I tell you?
            What is the password?
            Tell me the word.
            And the word?
            Do you still know the word?
            Say the word again.
            What word was that?
            * Which word was it?
            * Do you remember the word?
        """),
        "The word is {value}.",
    ),
    "pet": (
        phrasings("""
            I have a dog named {value}.
            My dog is called {value}.
            I have a cat named {value}.
            My cat is called {value}.
            The name of my pet is {value}.
            Our cat has the name {value}.
            My bird is {value}.
            {value} is my dog.
            We call our dog {value}.
            * My pet is named {value}.
        """),
        "{value} is a lovely name for a pet!",
        phrasings("""
            What is my pet called?
            What is the name of my pet?
            How is my pet called?
            Do you know the name of my pet?
            Do you still know my pet?
            Tell me the name of my pet.
            What name does my pet have?
            And my pet, what is it called?
            * Do you remember what my pet is called?
        """),
        "Your pet is called {value}.",
    ),
}
COLOURS = listed("red, blue, green, yellow, orange, purple, pink, white, black, brown")


def remembered(draw: Draw) -> tuple[Turn, Turn]:
    """The turn that tells something and the one that asks for it again."""
    topic = draw.any(list(TOPICS))
    told, reply, asked, answer = TOPICS[topic]
    value = _value(draw, topic)
    first = Turn(
        draw.phrase(told, value=value),
        _capitalised(reply.format(value=value)),
        f"The user tells me {value}.",
        contains(value),
    )
    text = answer.format(value=value)
    second = Turn(draw.phrase(asked), text, f"The user told me {value}.", contains(value))
    return first, second


def _value(draw: Draw, topic: str) -> str:
    if topic == "colour":
        return draw.any(COLOURS)
    if topic == "number":
        return str(draw.number(1, 9999))
    if topic == "word":
        return draw.of(tables.COMMON_WORDS) if draw.held_out or draw.chance(0.5) else made_up_word(draw)
    return name_or_new(draw, tables.CITIES if topic == "city" else tables.NAMES)


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
