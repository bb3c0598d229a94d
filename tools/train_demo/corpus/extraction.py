"""Turns that read a sentence and write what it says as JSON.

The keys asked for may be all that the sentence tells, a part of it, or none but one; values are
copied, numbers stay numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from ..conversation import Expectation, Turn
from ..split import Draw, Split, listed, phrasings
from . import tables
from .distraction import disturbed
from .invention import made_up_word, name_or_new

Record = dict[str, str | int]


class Schema(NamedTuple):
    """What a sentence of one kind tells: how values are drawn and how they are said."""

    values: dict[str, Callable[[Draw], str | int]]
    sentences: Split[str]


EVENTS = listed("meeting, party, concert, lesson, lunch, dinner, call, exam, game, wedding")


def _person(draw: Draw) -> str:
    return name_or_new(draw, tables.NAMES)


def _city(draw: Draw) -> str:
    return name_or_new(draw, tables.CITIES)


def _thing(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.5) else draw.of(tables.THINGS)


def _job(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.3) else draw.of(tables.JOBS)


def _email(draw: Draw) -> str:
    name = _person(draw).lower().replace(" ", ".")
    return f"{name}@{draw.any(['example', 'mail', 'post', 'work'])}.{draw.any(['com', 'org', 'net'])}"


SCHEMAS: dict[str, Schema] = {
    "age": Schema(
        {"name": _person, "age": lambda draw: draw.number(1, 99)},
        phrasings("""
            {name} is {age} years old.
            {name} is {age}.
            {name} is {age} years of age.
            My name is {name} and I am {age} years old.
            I am {name} and I am {age}.
            My friend {name} is {age} years old.
            {name}, aged {age}.
            {name} just turned {age}.
            This is {name}, who is {age} years old.
            At {age} years old, {name} is happy.
            The age of {name} is {age}.
            She is called {name}, and she is {age}.
            His name is {name}. He is {age} years old.
            Today {name} turned {age}.
            With {age} years, {name} is the oldest.
            {name} was {age} last May.
            Is {name} already {age}?
            We know that {name} is {age}.
            They call her {name}; her age is {age}.
            Hello, this is {name}. In a year I am not {age} any more.
            * Her name is {name} and she is {age} years old.
            * {name} will be {age} years old.
        """),
    ),
    "home": Schema(
        {"name": _person, "city": _city},
        phrasings("""
            {name} lives in {city}.
            {name} is from {city}.
            {name} comes from {city}.
            My name is {name} and I live in {city}.
            I am {name} from {city}.
            {name} moved to {city}.
            In {city} lives {name}.
            Her name is {name}. She comes from {city}.
            {name} was born in {city}.
            They call him {name}, and his home is {city}.
            {city} is the home of {name}.
            Yesterday {name} flew to {city}.
            The family of {name} lives in {city}.
            In {city} you can meet {name}.
            We met {name} in {city}.
            I know that {name} left {city}.
            * His name is {name} and he lives in {city}.
            * My friend {name} lives in {city}.
        """),
    ),
    "person": Schema(
        {"name": _person, "age": lambda draw: draw.number(1, 99), "city": _city},
        phrasings("""
            {name} is {age} years old and lives in {city}.
            {name} is {age} and lives in {city}.
            {name}, {age}, lives in {city}.
            {name} from {city} is {age} years old.
            My name is {name}, I am {age} years old and I live in {city}.
            I am {name}, {age}, from {city}.
            {name} lives in {city} and is {age} years old.
            In {city} lives {name}, who is {age}.
            Her name is {name}. She is {age}, and her home is {city}.
            He is called {name}, is {age} and works in {city}.
            At {age}, {name} moved to {city}.
            From {city} comes {name}, {age} years old.
            {name} was born in {city} and turned {age}.
            They know {name} from {city}; {name} is {age}.
            The home of {name}, {age}, is {city}.
            Now {name} is {age} and still in {city}.
            * {name} is {age} years old and comes from {city}.
            * Her name is {name}, she is {age} and lives in {city}.
        """),
    ),
    "work": Schema(
        {"name": _person, "job": _job, "city": _city},
        phrasings("""
            {name} is a {job} in {city}.
            {name} works as a {job} in {city}.
            {name} is a {job} and lives in {city}.
            {name}, a {job} from {city}.
            The {job} {name} works in {city}.
            I am {name}, a {job} from {city}.
            In {city}, {name} is a {job}.
            The {job} of {city} is called {name}.
            {city} has a new {job}: {name}.
            As a {job}, {name} came to {city}.
            She is {name}, and she works in {city} as a {job}.
            We met {name}, the {job}, in {city}.
            {name} left {city} and became a {job}.
            His name is {name}; he is a {job} and his home is {city}.
            * {name} has a job as a {job} in {city}.
            * My friend {name} is a {job} in {city}.
        """),
    ),
    "price": Schema(
        {"product": _thing, "price": lambda draw: draw.number(1, 999)},
        phrasings("""
            The {product} costs {price} dollars.
            The {product} costs {price} euros.
            A {product} is {price} dollars.
            The price of the {product} is {price} euros.
            I paid {price} dollars for the {product}.
            {product}: {price} dollars
            This {product} sells for {price} dollars.
            You can buy the {product} for {price} euros.
            We paid {price} euros for the {product}.
            {price} dollars is the price of the {product}.
            They want {price} euros for a {product}.
            He bought a {product} for {price} dollars.
            Look at this {product}: only {price} euros!
            In the shop the {product} was {price} dollars.
            The new {product} is {price} euros.
            She sold her {product} for {price} dollars.
            It costs {price} euros, this {product}.
            * They sell the {product} for {price} dollars.
            * The {product} has a price of {price} euros.
        """),
    ),
    "order": Schema(
        {"item": _thing, "quantity": lambda draw: draw.number(2, 60)},
        phrasings("""
            I would like to order {quantity} of the {item}.
            Order: {quantity} x {item}
            Please send me {item}, {quantity} pieces.
            I need {quantity} pieces of {item}.
            We want the {item}, {quantity} of them.
            {quantity} pieces of {item}, please.
            Send {quantity} of the {item}.
            He wants {quantity} of the {item}.
            They bought {item}, {quantity} pieces.
            The box has {quantity} pieces of {item}.
            We still need {item}: {quantity} pieces.
            Give me {quantity} of the {item}, please.
            Can I have {quantity} pieces of {item}?
            She ordered {quantity} of the {item}.
            * Please deliver {quantity} pieces of {item}.
            * I want to buy {item}, {quantity} of them.
        """),
    ),
    "meeting": Schema(
        {
            "event": lambda draw: draw.any(EVENTS),
            "day": lambda draw: draw.any(tables.DAYS),
            "city": _city,
        },
        phrasings("""
            The {event} is on {day} in {city}.
            There is a {event} in {city} on {day}.
            On {day} there is a {event} in {city}.
            We have a {event} on {day} in {city}.
            Come to the {event} in {city} on {day}!
            The {event} in {city} takes place on {day}.
            This {day} there is a {event} in {city}.
            Do not forget the {event} in {city}, it is on {day}.
            In {city} they plan a {event} for {day}.
            {event}, {city}, {day}
            The {day} {event} is in {city}.
            Next {day} they meet in {city} for a {event}.
            See you in {city} on {day} at the {event}.
            {city} has a {event} on {day}.
            * The {event} will be on {day} in {city}.
            * On {day} we have a {event} in {city}.
        """),
    ),
    "contact": Schema(
        {"name": _person, "email": _email},
        phrasings("""
            {name} can be reached at {email}.
            The email of {name} is {email}.
            Write to {name} at {email}.
            My name is {name} and my email is {email}.
            {name}: {email}
            Contact {name} at {email}.
            Please send it to {email}, says {name}.
            {email} belongs to {name}.
            Her name is {name}. Her email is {email}.
            If you need {name}, use {email}.
            For questions ask {name}: {email}
            The address {email} is the one of {name}.
            You find {name} under {email}.
            {name} has a new address: {email}
            * You can write to {name} at {email}.
            * The email address of {name} is {email}.
        """),
    ),
}
WITH_KEYS = phrasings("""
    Please return {keys} as JSON: {text}
    Please write {keys} as JSON: {text}
    Put {keys} into JSON: {text}
    Please give me {keys} as JSON: {text}
    {text} Give me {keys} as JSON.
    Extract {keys} as JSON: {text}
    Extract the {keys} as JSON: {text}
    Extract {keys} from this text as JSON: {text}
    Give me {keys} as JSON: {text}
    Return {keys} as JSON: {text}
    Return JSON with {keys}: {text}
    Return a JSON object with the keys {keys}: {text}
    Write {keys} as JSON: {text}
    Turn this into JSON with the keys {keys}: {text}
    Convert to JSON with keys {keys}: {text}
    JSON with {keys}: {text}
    Make JSON with {keys} from: {text}
    {text} Extract {keys} as JSON.
    {text} Return {keys} as JSON.
    {text} Give me a JSON object with {keys}.
    Text: {text} Keys: {keys}. Answer in JSON.
    Read the text and give {keys} in JSON. {text}
    Extract {keys} in JSON format: {text}
    Find {keys} in this text and answer in JSON: {text}
    {text} Put {keys} into JSON.
    I need {keys} as JSON: {text}
    {text} What are {keys}? Answer in JSON.
    {text} I want {keys} as JSON.
    Answer with JSON that has {keys}: {text}
    * Please extract {keys} as JSON: {text}
    * Please give me a JSON object with {keys}: {text}
    * {text} Write {keys} as JSON.
    * Extract {keys} into JSON: {text}
""")
WITHOUT_KEYS = phrasings("""
    Please write this as JSON: {text}
    Please give me this as JSON: {text}
    {text} Convert it to JSON.
    Turn this text into JSON: {text}
    Extract the data as JSON: {text}
    Turn this into JSON: {text}
    Convert this to JSON: {text}
    Convert to JSON: {text}
    Give me this as JSON: {text}
    As JSON: {text}
    JSON: {text}
    Write this as JSON: {text}
    Return this as JSON: {text}
    Make JSON from this: {text}
    {text} Turn this into JSON.
    {text} Write that as JSON.
    Extract the information as JSON: {text}
    Extract the facts as a JSON object: {text}
    {text} Make JSON from it.
    {text} Give me that as JSON.
    I need this as JSON: {text}
    {text} As JSON, please.
    Can I have JSON for this? {text}
    Put this into JSON: {text}
    * Please turn this text into JSON: {text}
    * Please convert this to JSON: {text}
    * {text} Convert this to JSON.
""")


def extraction(draw: Draw) -> Turn:
    """A sentence to be turned into JSON, with the keys named or left to the model."""
    schema = draw.any(list(SCHEMAS.values()))
    record: Record = {key: make(draw) for key, make in schema.values.items()}
    text = disturbed(draw, draw.phrase(schema.sentences, **record))
    if draw.chance(0.65):
        wanted = _wanted_keys(draw, record)
        record = {key: record[key] for key in wanted}
        question = draw.phrase(WITH_KEYS, keys=_listed(draw, wanted), text=text)
    else:
        question = draw.phrase(WITHOUT_KEYS, text=text)
    thought = "I need " + ", ".join(f"{key} {value}" for key, value in record.items()) + "."
    return Turn(question, json.dumps(record, ensure_ascii=False), thought, Expectation("json", record))


def _wanted_keys(draw: Draw, record: Record) -> list[str]:
    """Mostly all keys in the usual order, sometimes fewer or in another order."""
    keys = list(record)
    if draw.chance(0.3):
        return draw.some(keys, draw.number(1, len(keys)))
    return keys


def _listed(draw: Draw, keys: list[str]) -> str:
    if len(keys) == 1:
        return keys[0]
    if draw.chance(0.3):
        return ", ".join(keys)
    return ", ".join(keys[:-1]) + " and " + keys[-1]
